"""The validator: a Candidate becomes a Task only after everything that the row claims was observed.

Cheap stages come first, and each rejection carries its reason and its cause:

| stage | checks that |
|---|---|
| V0 | the exercise parses, and every module that could be imported still can |
| V1 | of the tests that run the changed code, at least one fails now |
| V2 | the whole suite runs: FAIL_TO_PASS fails, PASS_TO_PASS passes; the workspace passes the tests that it shows; |
|    | a migration's workspace passes all tests with an older version of the dependency, in an environment of its own; |
|    | a change of function bodies alone is shown by warm runs, see ``warm_proof`` |
|    | where a candidate brings its solution, every baseline test that it does not replace passes there |
| V3 | the oracle scores 1 in two orders, in fresh sandboxes; doing nothing scores 0 and fails every FAIL_TO_PASS |
| V5 | trivial solutions score 0 |
| V7 | the agent can read what hidden tests ask for by name or wording |
| V4 | nothing that the agent can read holds the solution |
| V10 | with the knob ``reruns``: solution and workspace give the same verdict in that many more runs |

Where the statement asks for it, a failing call or examples of right results are looked for after V2
(``observation/``), and shown as they were executed; an example that the leak check refuses is left out.
Then the row gets its strength and its features. V6, duplicates, needs the whole set: see ``generate.py``. Candidates
whose agents hand in tests or an answer have their own stages, with the same claims: see ``deliverables``.

Test files that mention what was removed: V1 and V2 run on copies without these names (``HiddenTests.rewritten``), so
that only tests that really need them fail. Grading brings the pristine files back, and for an agent that does nothing
these cannot be imported. V3 therefore demands of doing nothing that every PASS_TO_PASS test outside such files passes,
and outside files that use a rewritten conftest or helper; for the tests inside, V2 has shown it on the copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...environments.grading import grade
from ...environments.sandbox import Change
from ...environments.snapshots import Snapshot, scratch_tree
from ...environments.snapshots.store.patches import make_patch
from ...environments.snapshots.test_run.test_runner import Order, TestRun
from ...environments.tasks.task_trees import Materials
from ...errors import Rejected
from ...models import Grade, Task
from ..base import Candidate, Files
from ..engine.screening import trial_of
from ..engine.warm_batch import WarmBatch
from ..engine.warm_suite import WarmSuite
from ..python.hidden_tests import test_file
from ..python.source_tree import SourceTree, read_files
from .assembly import assemble, graded_documents, solution_files, workspace_tests
from .checks.exercise import Exercise
from .checks.final_checks import CheckKnobs, finished
from .checks.leaks import LeakCheck
from .checks.wrong_solutions.attempts import Contents, as_changes, rewarded, trivial_solutions
from .deliverables import Deliverables
from .limits import refuse_overload, suite_limit
from .measured_stages import Measured, Stages, below_any
from .observation.failing_calls import Observation, OnRightTree
from .observation.session_runs import SessionRuns
from .older_dependency import working_version
from .shared_proof import SharedProof, accept_solution, tests_beside_hidden
from .warm_proof import WarmOutcome, WarmProof, only_removes


@dataclass
class Validator:
    """Runs the stages for the candidates of one Snapshot; the state is what these share."""

    snapshot: Snapshot  # the Snapshot of the candidates
    backend: str = "auto"  # the sandbox backend
    knobs: CheckKnobs = CheckKnobs()  # the knobs of validation itself
    stages: Stages = field(init=False, repr=False)  # V0 to V2
    leaks: LeakCheck = field(init=False, repr=False)  # V4, with its index of shared layers
    shared: SharedProof = field(default_factory=SharedProof, repr=False)  # the part of V3 that tasks share
    warm: WarmBatch = field(init=False, repr=False)  # tries many small changes in one run
    right: OnRightTree = field(init=False, repr=False)  # what was observed on the Snapshot's tree
    proof: WarmProof = field(init=False, repr=False)  # V2 for changes that warm runs can make
    delivered: Deliverables = field(init=False, repr=False)  # all stages of candidates with another verifier

    def __post_init__(self) -> None:
        self.stages = Stages(self.snapshot, self.backend)
        self.leaks = LeakCheck(self.snapshot)
        self.warm = WarmBatch(WarmSuite(self.snapshot, self.backend))
        self.right = OnRightTree(runs=SessionRuns(self.snapshot, self.snapshot.tree, self.backend))
        self.proof = WarmProof(self.stages, self.warm)
        self.delivered = Deliverables(self.stages, self.leaks, self.knobs)

    async def task(self, candidate: Candidate, first: TestRun | None = None) -> Task:
        """Return the Task that ``candidate`` becomes. Raises Rejected with the stage's reason.

        ``first`` is the run of V1, where screening has made it already.
        """
        if candidate.blocked:
            raise Rejected(candidate.blocked.reason, candidate.blocked.detail)
        if candidate.deliverable is not None:
            return await self.delivered.task(candidate, candidate.deliverable)
        tree = SourceTree.of(self.snapshot)
        tests = candidate.hidden_tests
        stable = self.snapshot.baseline.passed
        if candidate.solution or tests.added:
            with self._tree({**candidate.solution, **tests.added}) as solved:
                stable = await self.stages.solved(tree, candidate, solved)
        documents = read_files(self.snapshot.tree, graded_documents(tree, candidate))
        with self._tree({**candidate.exercise, **documents, **tests.added, **tests.rewritten}) as full:
            warm_run = await self.proof.suite(candidate, first, full, tree)
            if warm_run is None:
                await self.stages.v0(tree, candidate, full)
            run = warm_run.run if warm_run else None
            measured = await self.stages.v1_v2(full, candidate, stable, first, run)
            if candidate.migration is not None:
                version = await working_version(self.snapshot, self.backend, full, candidate.migration, stable)
                measured = replace(measured, older=version)
            measured = await self._observed(tree, candidate, measured, full)
        task, workspace = assemble(self.snapshot, tree, candidate, replace(measured, examples=[]))
        if measured.examples:
            examples = await asyncio.to_thread(self.leaks.harmless, task, measured.examples)
            task, workspace = assemble(self.snapshot, tree, candidate, replace(measured, examples=examples))
        await self._visible_suite(tree, candidate, measured, workspace.path, warm_run)
        if tests.step is not None:
            await self.stages.scheduled(tests.step, tests.affected, measured.failing, workspace.path)
        solution = solution_files(self.snapshot, tree, candidate)
        bounded = task.verifier.model_copy(update={"timeout_s": suite_limit(self.snapshot)})
        gradable = task.model_copy(update={"verifier": bounded})
        await self._v3(gradable, candidate, solution)
        await self._v5(gradable, candidate, solution)
        keeps = bool(tests.added)  # what fails in the workspace are the candidate's own tests
        later = tests.step.later if tests.step else ()  # inputs of theirs have no right answer yet
        knobs = replace(self.knobs, behaviour=False) if later else self.knobs
        return await finished(task, self.snapshot, self.leaks, knobs, self.backend, self.warm, keeps_behaviour=keeps)

    async def _observed(self, tree: SourceTree, candidate: Candidate, measured: Measured, full: Path) -> Measured:
        """Return what was measured with the calls of failing tests that the candidate's statement shows."""
        affected = set(candidate.hidden_tests.affected)
        chosen = [test for test in measured.failing if test in affected] or measured.failing
        trial = trial_of(candidate)
        observation = Observation(self.stages, tree, full, self.right, trial.files if trial else None, self.warm)
        if candidate.observe_calls:
            measured = replace(measured, failing_calls=await observation.failing_calls(chosen))
        if candidate.show_examples:
            names = [item.name.rpartition(".")[2] for item in candidate.interface]
            measured = replace(measured, examples=await observation.examples(chosen, names))
        return measured

    async def _visible_suite(
        self,
        tree: SourceTree,
        candidate: Candidate,
        measured: Measured,
        workspace: Path,
        warm_run: WarmOutcome | None,
    ) -> None:
        tests = candidate.hidden_tests
        importing = set() if tests.policy == "hidden" else {*tests.rewritten, *tests.added}
        if candidate.migration is not None:
            importing |= {test_file(test) for test in measured.failing}
        shown = workspace_tests(tree, candidate, measured.failing)
        chosen = None if importing or tests.rewritten else tests_beside_hidden(tree, measured.passing, shown)
        if chosen and warm_run and only_removes(tree, shown):
            failing = await self.proof.first_visible_failure(candidate, chosen, warm_run)
            if failing:
                raise Rejected("v2_workspace_suite", f"{failing} fails once the hidden tests are gone")
            chosen = [] if failing is not None else chosen
        if chosen != []:
            await self.stages.visible_suite(workspace, measured.passing, importing, chosen)

    def _tree(self, files: Files) -> AbstractContextManager[Path]:
        """Return a context whose value is a copy of the Snapshot's tree with these files, removed at its end."""
        return scratch_tree(self.snapshot, make_patch(read_files(self.snapshot.tree, files), files))

    async def _v3(self, task: Task, candidate: Candidate, solution: Files) -> None:
        trees = Materials(task, self.snapshot)
        if await asyncio.to_thread(self.shared.covers_solution, task, trees):
            await accept_solution(task, trees, solution)
        else:
            orders: tuple[Order, ...] = ("given", "reversed")
            for order in orders:
                result = await self._grade(task, as_changes(solution), order)
                if result.reward.value != 1.0:
                    raise _not_solved(order, result)
            await asyncio.to_thread(self.shared.add_solution, task, trees)
        if self.shared.covers_nothing(candidate):
            return
        nothing = await self._grade(task, [])
        survivors = set(task.FAIL_TO_PASS) - {failure.test for failure in nothing.failures}
        if nothing.reward.value != 0.0 or survivors:
            raise Rejected("v3_noop", f"{min(survivors) if survivors else 'the reward'} does not need a solution")
        for failure in nothing.failures:
            outside = not below_any(test_file(failure.test), candidate.hidden_tests.rewritten)
            if failure.component == "pass_to_pass" and outside:
                raise Rejected("v3_pass_to_pass", f"{failure.test}: {failure.cause}")
        self.shared.nothing_scored = True

    async def _v5(self, task: Task, candidate: Candidate, solution: Files) -> None:
        trees = Materials(task, self.snapshot)
        wrong: Mapping[str, Contents] = candidate.probes
        if candidate.observe_calls and not wrong:
            wrong = trivial_solutions(await asyncio.to_thread(Exercise.of, task, trees))
        passing = await rewarded(task, trees, solution, wrong, self.backend, self.warm)
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
