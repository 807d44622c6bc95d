"""Rows of a set with renamed twins: each task is followed by its twin where it has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....environments.runs.parallel import at_once
from ....environments.snapshots import Snapshot
from ....environments.tasks.task_trees import Materials
from ....models import IMPOSSIBLE, Task
from ...base import Progress, ProgressUpdate
from ...output.publish import Row
from ...validation.checks.leaks import LeakCheck
from ..twin import Twin
from .plan import Plan, make_plan
from .renamed_twin import make_renamed_twin


@dataclass(frozen=True)
class RenamedPackage:
    """What was renamed in one package."""

    identifiers: int  # identifiers that it defines
    renamed: int  # those that have another name in the twins
    by_kind: dict[str, int]  # the renamed ones: names, modules, variables, parameters
    reason: str = ""  # why nothing was renamed


@dataclass
class RenamedReport:
    """What became of renamed twins."""

    twins: dict[str, int] = field(default_factory=dict)  # twins "made", and tasks without one by reason
    packages: dict[str, RenamedPackage] = field(default_factory=dict)  # by name and version


async def with_renamed_twins(
    rows: Sequence[Row],
    snapshots: Mapping[str, Snapshot],
    backend: str,
    jobs: int,
    report: RenamedReport,
    progress: Progress,
) -> list[Row]:
    """Return the rows in their order, each task followed by its renamed twin; ``jobs`` tasks are tried at a time.

    ``report`` is filled in. Raises GraderError and SandboxError when the machine fails.
    """
    waiting = [row.task for row in rows if row.task is not None and not row.task.features.get(IMPOSSIBLE)]
    used = sorted({task.snapshot.digest for task in waiting if task.snapshot})
    plans: dict[str, Plan] = {}
    for number, digest in enumerate(used):
        progress(ProgressUpdate("renaming", number, len(used)))
        plans[digest] = await make_plan(snapshots[digest], backend)
    leaks = {digest: LeakCheck(snapshots[digest]) for digest in used}
    twins: dict[str, Twin] = {}

    async def one(task: Task) -> None:
        assert task.snapshot is not None, "generated tasks name their snapshot"
        digest = task.snapshot.digest
        trees = Materials(task, snapshots[digest])
        twins[task.task_id] = await make_renamed_twin(task, trees, plans[digest], leaks[digest], backend)

    await at_once(waiting, jobs, one, lambda done: progress(ProgressUpdate("renamed twins", done, len(waiting))))
    report.twins |= dict(sorted(Counter(twin.reason or "made" for twin in twins.values()).items()))
    for digest, plan in plans.items():
        package = f"{snapshots[digest].name} {snapshots[digest].version}"
        report.packages[package] = RenamedPackage(plan.defined, plan.renamed, dict(plan.counts), plan.reason)
    result: list[Row] = []
    for row in rows:
        result.append(row)
        twin = twins[row.task.task_id].task if row.task is not None and row.task.task_id in twins else None
        if twin is not None:
            result.append(replace(row, task=twin))
    return result
