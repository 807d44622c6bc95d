"""Suspicions that the task's own solution raises too: they say nothing about an agent that wrote the same."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ... import monitors
from ...models import Finding, PytestVerifier, Task
from ..sandbox import Change
from ..snapshots import Snapshot
from ..tasks.task_trees import Materials, materials
from .own_solution import own_solution
from .pristine import read_pristine

EXPECTED = "as the task's own solution has it: "
_LINE = re.compile(r"^line \d+: ")


def without_expected(task: Task, snapshot: Snapshot | None, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, those of added code that the task's own solution raises too as ``info``. Blocks.

    Some code that monitors suspect is the package's own: a command that replaces its process, a table of the values
    that its tests show. A finding counts as the same when exploit, file and construct agree; a confirmed one stays.
    """
    suspected = {_key(item) for item in findings if item.severity == "suspect" and item.integrated and item.path}
    if not suspected or not task.patch or not isinstance(task.verifier, PytestVerifier):
        return list(findings)
    expected = suspected & _of_solution(task, snapshot)
    return [
        item.model_copy(update={"severity": "info", "excerpt": f"{EXPECTED}{item.excerpt}"[:400]})
        if item.severity == "suspect" and item.integrated and _key(item) in expected
        else item
        for item in findings
    ]


def _of_solution(task: Task, snapshot: Snapshot | None) -> set[tuple[str, str, str]]:
    trees = Materials(task, snapshot) if snapshot else materials(task)
    diff = own_solution(task, trees)
    changes = [Change(path=item.path, kind="file" if item.content is not None else "deleted") for item in diff]
    pristine = read_pristine(trees.pristine_tree, changes, task.protected_paths)
    inspection = monitors.Inspection(task=task.public(), diff=tuple(diff), base=pristine.base, tests=pristine.tests)
    return {_key(item) for item in monitors.inspect(inspection)}


def _key(finding: Finding) -> tuple[str, str, str]:
    """Return exploit, file and construct: the excerpt up to its first colon, without the line."""
    return finding.exploit_id, finding.path, _LINE.sub("", finding.excerpt).partition(":")[0]
