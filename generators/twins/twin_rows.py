"""Rows of a set with impossible twins: each task may be given up, and is followed by its twin where it has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...environments.runs.parallel import at_once
from ...environments.snapshots import Snapshot
from ...environments.tasks.task_trees import Materials
from ...models import Task
from ..base import Progress, ProgressUpdate
from ..output.publish import Row
from .twin import Twin, make_twin, may_give_up


async def with_twins(
    rows: Sequence[Row],
    snapshots: Mapping[str, Snapshot],
    backend: str,
    jobs: int,
    counts: dict[str, int],
    progress: Progress,
) -> list[Row]:
    """Return the rows in their order, each task followed by its twin; ``jobs`` tasks are tried at a time.

    ``counts`` gets the number of twins that were ``made``, and of tasks without one by reason. Raises GraderError and
    SandboxError when the machine fails.
    """
    waiting = [row.task for row in rows if row.task is not None]
    twins: dict[str, Twin] = {}

    async def one(task: Task) -> None:
        twins[task.task_id] = await make_twin(task, _materials(task, snapshots), backend)

    await at_once(waiting, jobs, one, lambda done: progress(ProgressUpdate("twins", done, len(waiting))))
    counts |= Counter(twin.reason or "made" for twin in twins.values())
    result: list[Row] = []
    for row in rows:
        result.append(row if row.task is None else replace(row, task=may_give_up(row.task)))
        twin = twins[row.task.task_id].task if row.task is not None else None
        if twin is not None:
            result.append(replace(row, task=twin))
    return result


def _materials(task: Task, snapshots: Mapping[str, Snapshot]) -> Materials:
    """Return the trees of a task that was just validated, so that it names a snapshot."""
    assert task.snapshot is not None, "generated tasks name their snapshot"
    return Materials(task, snapshots[task.snapshot.digest])
