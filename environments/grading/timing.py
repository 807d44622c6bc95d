"""Timing of grades in fresh sandboxes of a backend."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ..tasks.task_set import TaskSet
from .submission import grade

_ROUNDS = 5


def grader_of(folder: Path | None) -> Callable[[str], Awaitable[float]] | None:
    """Return a function that measures the median milliseconds of grading a set's first task; None without a set."""
    if folder is None:
        return None
    task = next(iter(TaskSet.load(folder)))

    async def median(backend: str) -> float:
        spent = []
        for _ in range(_ROUNDS + 1):
            started = time.perf_counter()
            await grade(task, [], backend=backend)
            spent.append(time.perf_counter() - started)
        # The first one also makes the task's trees.
        return statistics.median(spent[1:]) * 1e3

    return median
