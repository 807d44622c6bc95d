"""The part of the proof that tasks of one Snapshot share, so that it is run once and not for each of them.

With its solution the tree of most tasks is the Snapshot's own, byte for byte, and without it the tree of the grader is
the one on which stage V2 has run the whole suite. What the tests do on such a tree was observed already; what is left
is what differs between tasks: whether the grader accepts the files of the solution, and what the monitors say of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from ... import monitors
from ...environments.grading.collect import collect
from ...environments.grading.pristine import read_pristine
from ...environments.tasks.task_trees import Materials
from ...errors import Rejected
from ...models import Task
from ..base import Candidate
from ..python.hidden_tests import test_file
from ..python.source_tree import SourceTree
from .checks.exercise import solved_is_pristine
from .checks.wrong_solutions.attempts import as_changes


@dataclass
class SharedProof:
    """What full grades have shown for one Snapshot. The state is the tests that passed in them."""

    passed: set[str] = field(default_factory=set)
    """Tests that passed on the Snapshot's own tree in grades of solutions, in both orders."""
    nothing_scored: bool = False
    """Whether a grade of an unsolved task has given 0, with the outcomes of stage V2."""

    def covers_solution(self, task: Task, trees: Materials) -> bool:
        """Return whether earlier grades have run the expected tests of ``task`` on the very tree of its solution."""
        return self.passed.issuperset([*task.FAIL_TO_PASS, *task.PASS_TO_PASS]) and solved_is_pristine(trees)

    def covers_nothing(self, candidate: Candidate) -> bool:
        """Return whether stage V2 has run the suite on the tree on which an unsolved task is graded."""
        tests = candidate.hidden_tests
        return self.nothing_scored and not (tests.rewritten or tests.added or candidate.solution)

    def add_solution(self, task: Task, trees: Materials) -> None:
        """Note that the solution of ``task`` was graded 1 in both orders."""
        if solved_is_pristine(trees):
            self.passed.update(task.FAIL_TO_PASS, task.PASS_TO_PASS)


async def accept_solution(task: Task, trees: Materials, solution: Mapping[str, bytes | None]) -> None:
    """Check that the grader accepts the files of the solution and that no monitor confirms an exploit in them.

    Raises Rejected.
    """
    changes = as_changes(solution)
    accepted, refused = await asyncio.to_thread(collect, changes, task, trees.pristine_tree, trees.installed)
    if refused:
        raise Rejected("v3_oracle", f"the grader refuses {refused[0].path} of the solution: {refused[0].reason}")
    pristine = await asyncio.to_thread(read_pristine, trees.pristine_tree, changes, task.protected_paths)
    inspection = monitors.Inspection(task=task.public(), diff=tuple(accepted), base=pristine.base, tests=pristine.tests)
    findings = await asyncio.to_thread(monitors.inspect, inspection)
    confirmed = [finding for finding in findings if finding.severity == "confirmed"]
    if confirmed:
        cause = f"a monitor confirmed {confirmed[0].exploit_id} without any exploit: {confirmed[0].excerpt}"
        raise Rejected("v3_oracle", cause)


def tests_beside_hidden(tree: SourceTree, passing: list[str], shown: Mapping[str, bytes | None]) -> list[str] | None:
    """Return the visible tests that hiding the others can disturb, None when these may be any.

    ``shown`` are the test files that lost tests. Where no other file mentions one of them, only its own tests can.
    """
    for path in shown:
        stem = path.removesuffix(".py").rpartition("/")[2]
        others = [other for other, names in tree.word_index.items() if other != path and stem in names]
        if not path.endswith(".py") or stem in ("conftest", "__init__") or others:
            return None
    remaining = {path for path, content in shown.items() if content is not None}
    return [test for test in passing if test_file(test) in remaining]
