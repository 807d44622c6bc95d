"""The validator: a Candidate becomes a Task only after everything that the row claims was observed.

Cheap stages come first, and each rejection carries its reason and its cause:

| stage | checks that |
|---|---|
| V0 | the exercise parses, and every module that could be imported still can |
| V1 | of the tests that run the changed code, at least one fails now |
| V2 | the whole suite runs: FAIL_TO_PASS fails, PASS_TO_PASS passes; the workspace passes the tests that it shows; |
|    | where a candidate brings its solution, every baseline test that it does not replace passes there |
| V3 | the oracle scores 1 in two orders, in fresh sandboxes; doing nothing scores 0 and fails every FAIL_TO_PASS |
| V5 | trivial solutions score 0 |
| V7 | the agent can read what hidden tests ask for by name or wording |
| V4 | nothing that the agent can read holds the solution |

Then the row gets its strength and its features. V6, duplicates, needs the whole set: see ``generate.py``.

Test files that mention what was removed: V1 and V2 run on copies without these names (``HiddenTests.rewritten``), so
that only tests that really need them fail. Grading brings the pristine files back, and for an agent that does nothing
these cannot be imported. V3 therefore demands of doing nothing that every PASS_TO_PASS test outside such files passes,
and outside files that use a rewritten conftest or helper; for the tests inside, V2 has shown it on the copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
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
from ..python.source_tree import SourceTree, read_files
from .assembly import assemble, solution_files
from .checks.final_checks import CheckKnobs, finished
from .checks.leaks import LeakCheck
from .checks.wrong_solutions.attempts import as_changes, rewarded
from .limits import refuse_overload, suite_limit
from .measured_stages import Stages, below_any

Order = Literal["given", "reversed"]


@dataclass
class Validator:
    """Runs the stages for the candidates of one Snapshot; the state is what these share."""

    snapshot: Snapshot  # the Snapshot of the candidates
    backend: str = "auto"  # the sandbox backend
    knobs: CheckKnobs = CheckKnobs()  # the knobs of validation itself
    stages: Stages = field(init=False, repr=False)  # V0 to V2
    leaks: LeakCheck = field(init=False, repr=False)  # V4, with its index of shared layers

    def __post_init__(self) -> None:
        self.stages = Stages(self.snapshot, self.backend)
        self.leaks = LeakCheck(self.snapshot)

    async def task(self, candidate: Candidate) -> Task:
        """Return the Task that ``candidate`` becomes. Raises Rejected with the stage's reason."""
        if candidate.blocked:
            raise Rejected(candidate.blocked.reason, candidate.blocked.detail)
        tree = SourceTree.of(self.snapshot)
        tests = candidate.hidden_tests
        stable = self.snapshot.baseline.passed
        if candidate.solution or tests.added:
            with self._tree({**candidate.solution, **tests.added}) as solved:
                stable = await self.stages.solved(tree, candidate, solved)
        with self._tree({**candidate.exercise, **tests.added, **tests.rewritten}) as full:
            await self.stages.v0(tree, candidate, full)
            measured = await self.stages.v1_v2(full, candidate, stable)
        task, workspace = assemble(self.snapshot, tree, candidate, measured)
        importing = set() if tests.policy == "hidden" else {*tests.rewritten, *tests.added}
        await self.stages.visible_suite(workspace.path, measured.passing, importing)
        solution = solution_files(self.snapshot, tree, candidate)
        bounded = task.verifier.model_copy(update={"timeout_s": suite_limit(self.snapshot)})
        gradable = task.model_copy(update={"verifier": bounded})
        await self._v3(gradable, candidate, solution)
        await self._v5(gradable, candidate, solution)
        keeps = bool(tests.added)  # what fails in the workspace are the candidate's own tests
        return await finished(task, self.snapshot, self.leaks, self.knobs, self.backend, keeps_behaviour=keeps)

    def _tree(self, files: Files) -> AbstractContextManager[Path]:
        """Return a context whose value is a copy of the Snapshot's tree with these files, removed at its end."""
        return scratch_tree(self.snapshot, make_patch(read_files(self.snapshot.tree, files), files))

    async def _v3(self, task: Task, candidate: Candidate, solution: Files) -> None:
        orders: tuple[Order, ...] = ("given", "reversed")
        for order in orders:
            result = await self._grade(task, as_changes(solution), order)
            if result.reward.value != 1.0:
                raise _not_solved(order, result)
        nothing = await self._grade(task, [])
        survivors = set(task.FAIL_TO_PASS) - {failure.test for failure in nothing.failures}
        if nothing.reward.value != 0.0 or survivors:
            raise Rejected("v3_noop", f"{min(survivors) if survivors else 'the reward'} does not need a solution")
        for failure in nothing.failures:
            outside = not below_any(test_file(failure.test), candidate.hidden_tests.rewritten)
            if failure.component == "pass_to_pass" and outside:
                raise Rejected("v3_pass_to_pass", f"{failure.test}: {failure.cause}")

    async def _v5(self, task: Task, candidate: Candidate, solution: Files) -> None:
        trees = Materials(task, self.snapshot)
        passing = await rewarded(task, trees, solution, candidate.probes, self.backend)
        if passing:
            raise Rejected("v5_trivial_solution", f"the trivial solution {passing[0]!r} passes every hidden test")

    async def _grade(self, task: Task, changes: Sequence[Change], order: Order = "given") -> Grade:
        result = await grade(task, changes, backend=self.backend, snapshot=self.snapshot, order=order)
        if any(failure.cause.startswith("timeout") for failure in result.failures):
            refuse_overload()
        return result


def _not_solved(order: Order, result: Grade) -> Rejected:
    """Return the rejection of a candidate whose oracle does not score 1, with the first cause that the grade names."""
    where = f"{order} order: "
    if result.failures:
        first = result.failures[0]
        return Rejected("v3_oracle", f"{where}{first.test}: {first.cause or result.end_cause}")
    confirmed = [finding for finding in result.findings if finding.severity == "confirmed"]
    if confirmed:
        cause = f"a monitor confirmed {confirmed[0].exploit_id} without any exploit: {confirmed[0].excerpt}"
        return Rejected("v3_oracle", where + cause)
    zero = [name for name, value in result.reward.components.items() if value != 1.0]
    return Rejected("v3_oracle", f"{where}the reward is {result.reward.value}, because of {', '.join(zero)}")
