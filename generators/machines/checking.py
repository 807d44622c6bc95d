"""The order of the work on candidates: batches are screened in one warm run, then groups of survivors are judged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from .records import BuildCost, Built, Judged, Settings, Work
from .steps import Done, judge, screened

BATCH = 64
"""Candidates that are screened together: the package is imported and its tests are collected once for them."""
GROUP = 32
"""Most candidates that are judged side by side, so that their later trials share a process too."""
AHEAD = 2
"""Steps per processor that are submitted at the same time, so that no processor waits for the next one."""


@dataclass(frozen=True)
class Step:
    """One step for a queue."""

    run: Callable[..., Any]  # a function of ``steps.py``
    built: Built  # its Snapshot
    arguments: tuple[Any, ...]  # its other arguments
    keys: tuple[str, ...]  # keys of the candidates that it is about


class Queue(Protocol):
    """A bounded queue of steps that run elsewhere."""

    def processors(self) -> int:
        """Return how many steps can run at the same time."""
        ...

    def has_room(self) -> bool:
        """Return whether another step may be submitted now."""
        ...

    def is_empty(self) -> bool:
        """Return whether no submitted step is unfinished."""
        ...

    def submit(self, step: Step) -> None:
        """Submit a step."""
        ...

    def next_done(self) -> tuple[Step, Done]:
        """Wait for any of the submitted steps and return it. Raises what the step raised."""
        ...


def verdicts(works: Iterable[Work], queue: Queue, settings: Settings) -> Iterator[Judged]:
    """Yield the verdict on every candidate as soon as it is known; each exactly once.

    Candidates are judged in groups, so a killed run loses at most one group per worker.
    """
    batches = (step for work in works for step in _batches(work, settings))
    survivors: deque[Step] = deque()
    screening_cpu: dict[str, float] = {}
    costs: dict[Built, BuildCost] = {}  # of builds, until the next verdict on a candidate of the Snapshot
    while True:
        while queue.has_room():
            step = survivors.popleft() if survivors else next(batches, None)
            if step is None:
                break
            queue.submit(step)
        if queue.is_empty():
            return
        step, done = queue.next_done()
        cpu = done.cpu_seconds / len(step.keys)
        if done.cost is not None:
            costs[step.built] = costs[step.built] + done.cost if step.built in costs else done.cost
        if step.run is judge:
            for key, verdict in zip(step.keys, done.value, strict=True):
                yield Judged(key, verdict, screening_cpu.pop(key) + cpu, costs.pop(step.built, None))
            continue
        passed = []
        for key, candidate, result in zip(step.keys, step.arguments[0], done.value, strict=True):
            if result.rejection:
                yield Judged(key, result.rejection, cpu, costs.pop(step.built, None))
            else:
                screening_cpu[key] = cpu
                passed.append((key, (candidate, result.run)))
        size = min(GROUP, -(-len(passed) // queue.processors()))  # no processor is without work
        for start in range(0, len(passed), max(1, size)):
            keys, group = zip(*passed[start : start + size], strict=True)
            survivors.append(Step(judge, step.built, (group, settings), keys))


def _batches(work: Work, settings: Settings) -> Iterator[Step]:
    keys = list(work.waiting)
    for start in range(0, len(keys), BATCH):
        part = tuple(keys[start : start + BATCH])
        yield Step(screened, work.built, ([work.waiting[key] for key in part], settings), part)
