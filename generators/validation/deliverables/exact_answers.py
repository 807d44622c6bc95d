"""Stages of questions: the answer is observed in the workspace, never taken from the generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....environments.grading import Submission, grade_submission
from ....environments.grading.answer import is_answer
from ....environments.snapshots import Snapshot, Workspace, make_workspace
from ....environments.snapshots.store.patches import make_patch
from ....environments.snapshots.test_run.impact import trace_roots
from ....environments.snapshots.test_run.test_runner import run_tests
from ....errors import Rejected
from ....models import AnswerVerifier, Task
from ...base import Candidate, ExactAnswer, Observed, StatementContext
from ...python.source_tree import SourceTree, read_files
from ..assembly import protected_paths
from ..checks.adequacy import AgentText, squeeze
from ..limits import OVERLOAD, conclusive, refuse_overload, suite_limit
from ..measured_stages import Stages
from .rows import make_row

GUESSES = (
    *("", "None", "True", "False", "0", "1", "-1", "[]", "()", "{}", "''", "set()", "none", "unknown"),
    *("nothing", "the answer", "NotImplementedError", "0.0", "b''", "[None]", "[[]]", "['']"),
)
"""Answers that an agent may give without looking at anything."""


@dataclass
class AnswerStages:
    """The stages for the questions about one Snapshot."""

    stages: Stages  # runs on the Snapshot
    _covered: Mapping[str, Mapping[str, Sequence[int]]] | None = field(default=None, repr=False)

    @property
    def snapshot(self) -> Snapshot:
        """Return the Snapshot of the questions."""
        return self.stages.snapshot

    async def task(self, candidate: Candidate, deliverable: ExactAnswer) -> Task:
        """Return the task that the candidate becomes. Raises Rejected with the stage's reason."""
        question, tree = deliverable.question, SourceTree.of(self.snapshot)
        workspace = await self._workspace(candidate)
        printed = await self._printed(workspace.path, question.program) if question.program else ""
        covered = await self._lines(workspace.path, candidate, question.traced) if question.traced is not None else {}
        answered = question.answer(Observed(printed, covered))
        verifier = AnswerVerifier(answer=answered.answer, form=question.form, components=["answer"])
        easy = next((guess for guess in [*GUESSES, *answered.guesses] if is_answer(guess, verifier)), None)
        if easy is not None:
            raise Rejected("v5_trivial_solution", f"{easy[:200]!r} is the answer, and is easy to guess")
        context = StatementContext(
            package=f"{self.snapshot.name} {self.snapshot.version}",
            failing=[],
            interface=[],
            question=answered.question,
        )
        task = make_row(
            self.snapshot,
            candidate,
            workspace,
            context,
            verifier,
            workspace_patch=self._patch(candidate),
            protected_paths=protected_paths(tree),
        )
        if where := readable_answer(task, workspace.path):
            raise Rejected("v4_leak", where)
        await self._scored(task)
        return task

    def _patch(self, candidate: Candidate) -> str:
        shown = candidate.exercise
        return make_patch(read_files(self.snapshot.tree, shown), shown) if shown else ""

    async def _workspace(self, candidate: Candidate) -> Workspace:
        """Return the workspace; where it differs from the Snapshot, its own tests have to pass."""
        workspace = make_workspace(self.snapshot, self._patch(candidate), git=True)
        if candidate.exercise:
            await self.stages.visible_suite(workspace.path, self.snapshot.baseline.passed, set())
        return workspace

    async def _printed(self, workspace: Path, program: str) -> str:
        """Return what a program prints in two fresh sandboxes with other hash seeds. Raises Rejected."""
        limit, outputs = suite_limit(self.snapshot), []
        for seed in ("0", "1"):
            sandbox = await self.stages.open(workspace)
            try:
                result = await sandbox.exec(
                    ["python", "-c", program],
                    env={"PYTHONHASHSEED": seed},
                    timeout_s=OVERLOAD * limit,
                    cpu_s=limit,
                    idle_s=limit,
                )
            finally:
                await sandbox.close()
            if result.timed_out:
                refuse_overload()
            if result.timed_out or result.exit_code != 0:
                last = result.output.decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise Rejected(
                    "v1_no_observation", f"the program ends with exit code {result.exit_code}: {last[-200:]}"
                )
            outputs.append(result.output.decode("utf-8", "replace").strip().rpartition("\n")[2])
        if outputs[0] != outputs[1]:
            raise Rejected("v3_unstable", "the program prints something else with another hash seed")
        return outputs[0]

    async def _lines(
        self, workspace: Path, candidate: Candidate, tests: Sequence[str]
    ) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """Return the lines that each stable test runs; the whole suite is measured once for all questions."""
        is_shared = not (tests or candidate.exercise)
        if is_shared and self._covered is not None:
            return self._covered
        sandbox = await self.stages.open(workspace)
        try:
            roots = trace_roots(self.snapshot.recipe.packages.values())
            limit, chosen = 3 * suite_limit(self.snapshot), list(tests) or None
            run = conclusive(await run_tests(sandbox, self.snapshot.verifier, chosen, coverage=roots, timeout_s=limit))
        finally:
            await sandbox.close()
        if not run.complete:
            raise Rejected("v1_no_observation", f"the traced tests: {run.cause}")
        stable = {"", *self.snapshot.baseline.passed}
        covered = {test: files for test, files in run.contexts.items() if test in stable}
        if is_shared:
            self._covered = covered
        return covered

    async def _scored(self, task: Task) -> None:
        """Check that the answer scores 1 twice, and that an empty one scores 0. Raises Rejected."""
        assert isinstance(task.verifier, AnswerVerifier)
        for text, expected in ((task.verifier.answer, 1.0), (f" {task.verifier.answer}\n", 1.0), ("", 0.0)):
            submission = Submission(task, answer=text, backend=self.stages.backend, snapshot=self.snapshot)
            result, _ = await grade_submission(submission)
            if result.reward.value != expected:
                raise Rejected("v3_oracle" if text else "v3_noop", f"the reward is {result.reward.value}")


def readable_answer(task: Task, workspace: Path) -> str:
    """Return where the agent can read the whole answer, '' for nowhere."""
    assert isinstance(task.verifier, AnswerVerifier)
    answer = task.verifier.answer
    if squeeze(answer) in squeeze(task.problem_statement):
        return "the statement holds the answer"
    if AgentText("", workspace).contains(answer):
        return "a file of the workspace holds the answer"
    return ""
