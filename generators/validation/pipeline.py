"""The validator: a Candidate becomes a Task only after everything that is said of it was seen to happen.

Cheap stages come first, and each rejection carries its reason:

V0  the exercise parses and every module that could be imported still can;
V1  of the tests that touch the deleted code, at least one fails now, inside itself;
V2  the whole suite runs; what fails is FAIL_TO_PASS, what is left passes and is PASS_TO_PASS; the workspace as the
    agent gets it (hidden tests gone) passes what it still holds;
V3  the oracle scores 1 twice, in two orders, each in a fresh sandbox; doing nothing scores 0 and fails every
    FAIL_TO_PASS;
V5  trivial bodies score 0;
V7  what hidden tests ask for by name or wording is told, and V4 nothing that the agent can read holds the solution;
    then the row gets its strength and its features (``checks``). V6, duplicates, needs the whole set: ``generate.py``.

Test files that name what was removed: V1 and V2 run on copies without these names (``Candidate.tests``), so that only
tests that really need them fail. Grading brings the pristine files back, and for an agent that does nothing these
cannot be imported. V3 therefore asks of doing nothing that every PASS_TO_PASS test outside such files passes (and
outside what a rewritten conftest or test helper serves); for the tests inside them V2 has shown the same on the copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...environments.grading import grade
from ...environments.sandbox import Change
from ...environments.snapshots import Snapshot, scratch_tree
from ...environments.snapshots.store.patches import make_patch
from ...environments.tasks.task_trees import Materials
from ...errors import Rejected
from ...models import Grade, Task
from ..base import Candidate, Files
from ..python.hidden_tests import test_file
from ..python.source_tree import SourceTree
from .assembly import assemble, source_paths
from .checks.attempts import attempts
from .checks.final_checks import CheckKnobs, FinalChecks
from .measured_stages import Stages, below_any


@dataclass
class Validator:
    """Runs the stages for candidates of one Snapshot; holds nothing but what every candidate shares."""

    snapshot: Snapshot
    backend: str = "auto"
    knobs: CheckKnobs = CheckKnobs()
    stages: Stages = field(init=False, repr=False)
    final: FinalChecks = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.stages = Stages(self.snapshot, self.backend)
        self.final = FinalChecks(self.snapshot, self.backend, self.knobs)

    async def task(self, candidate: Candidate) -> Task:
        """The Task that ``candidate`` becomes. Raises Rejected with the stage's reason."""
        if candidate.blocked:
            raise Rejected(*candidate.blocked.split(": ", 1))
        tree = SourceTree.of(self.snapshot)
        edited = {**candidate.exercise, **candidate.tests}
        with scratch_tree(self.snapshot, make_patch(self.stages.base(edited), edited)) as full:
            await self.stages.v0(tree, candidate, full)
            fail_to_pass, pass_to_pass = await self.stages.v1_v2(full, candidate)
        task, workspace = assemble(self.snapshot, tree, candidate, fail_to_pass, pass_to_pass)
        await self._visible_suite(workspace.path, task, candidate)
        await self._v3(task, candidate)
        await self._v5(task, candidate)
        return await self.final.task(task)

    # --- the stages -----------------------------------------------------------------------------------------

    async def _visible_suite(self, workspace: Path, task: Task, candidate: Candidate) -> None:
        """The workspace as the agent gets it. With hidden tests, all of it can be collected and run."""
        hides_all = candidate.generator.knobs.get("tests", "hidden") == "hidden"
        importing = set() if hides_all else set(candidate.tests)
        await self.stages.visible_suite(workspace, task.PASS_TO_PASS, importing)

    async def _v3(self, task: Task, candidate: Candidate) -> None:
        solution = _changes(self._solved(candidate))
        orders: tuple[Literal["given", "reversed"], ...] = ("given", "reversed")
        for order in orders:
            result = await self._grade(task, solution, order)
            if result.reward.value != 1.0:
                raise Rejected("v3_oracle", f"{order} order: {_first_failure(result)}")
        nothing = await self._grade(task, [])
        survivors = set(task.FAIL_TO_PASS) - {failure.test for failure in nothing.failures}
        if nothing.reward.value != 0.0 or survivors:
            raise Rejected("v3_noop", f"{sorted(survivors)[0] if survivors else 'the reward'} does not need a solution")
        for failure in nothing.failures:
            if failure.component == "pass_to_pass" and not below_any(test_file(failure.test), candidate.tests):
                raise Rejected("v3_pass_to_pass", f"{failure.test}: {failure.cause}")

    async def _v5(self, task: Task, candidate: Candidate) -> None:
        if not candidate.probes:
            return
        async with attempts(task, Materials(task, self.snapshot), self._solved(candidate), self.backend) as tried:
            # Most probes fail at once; only one that gets past the hidden tests is worth the whole grade.
            passing = {name: files for name, files in candidate.probes.items() if await tried.passes(files)}
        for name, files in passing.items():
            if (await self._grade(task, _changes(files))).reward.value != 0.0:
                raise Rejected("v5_trivial_solution", f"the body {name!r} passes every hidden test")

    def _solved(self, candidate: Candidate) -> Files:
        """The files of the solution: what the package had."""
        return self.stages.base(source_paths(SourceTree.of(self.snapshot), candidate))

    async def _grade(self, task: Task, changes: list[Change], order: Literal["given", "reversed"] = "given") -> Grade:
        bounded = task.verifier.model_copy(update={"timeout_s": self.stages.time_limit})
        task = task.model_copy(update={"verifier": bounded})
        return await grade(task, changes, backend=self.backend, snapshot=self.snapshot, order=order)


def _changes(files: Files) -> list[Change]:
    return [
        Change(path=path, kind="file" if content is not None else "deleted", size=len(content or b""), content=content)
        for path, content in sorted(files.items())
    ]


def _first_failure(result: Grade) -> str:
    failure = next(iter(result.failures), None)
    return f"{failure.test}: {failure.cause}" if failure else result.end_cause
