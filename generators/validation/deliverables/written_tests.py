"""Stages of tasks in which the agent writes tests: the oracle is a copy of the tests that left the workspace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....environments.grading import grade
from ....environments.grading.mutants import Version, not_passed, notices, pack, runs_on
from ....environments.sandbox import open_sandbox
from ....environments.snapshots import Snapshot, make_workspace, scratch_tree
from ....environments.snapshots.store.patches import make_patch
from ....environments.snapshots.test_run.placed_files import write_files
from ....environments.snapshots.test_run.test_runner import Order
from ....environments.tasks.task_trees import Materials
from ....errors import Rejected
from ....models import MutantsVerifier, Task
from ....monitors.leaks import Leak
from ...base import Candidate, Files, StatementContext, WrittenTests
from ...python.hidden_tests import hide, split_test_id, test_file
from ...python.source_tree import SourceTree, read_files
from ...statements.interface import interface_of
from ..checks.exercise import Exercise
from ..checks.leaks import LeakCheck
from ..checks.wrong_solutions.attempts import as_changes
from ..limits import suite_limit
from ..measured_stages import Measured, Stages
from .rows import make_row, protected_but
from .trivial_tests import probes

MOST_SECONDS = 30.0
"""Most seconds of CPU time that one test may take on one version."""


@dataclass(frozen=True)
class _Oracle:
    """A copy of the tests that decide, in the file that the agent is to write."""

    path: str
    content: bytes
    tests: list[str]

    @property
    def files(self) -> Files:
        return {self.path: self.content}


@dataclass
class TestStages:
    """The stages for the candidates of one Snapshot."""

    __test__ = False  # pytest takes every class whose name starts with Test for a test

    stages: Stages  # runs on the Snapshot
    leaks: LeakCheck  # what the Snapshot's tasks share of the leak scan

    @property
    def snapshot(self) -> Snapshot:
        """Return the Snapshot of the candidates."""
        return self.stages.snapshot

    async def task(self, candidate: Candidate, tests: WrittenTests) -> Task:
        """Return the task that the candidate becomes. Raises Rejected with the stage's reason."""
        tree = SourceTree.of(self.snapshot)
        measured = await self._measured(tree, candidate, tests)
        hidden = hide(tree, measured.failing)
        oracle = make_oracle(self.snapshot, tree, measured.failing, tests)
        shown: Files = {**candidate.exercise, **hidden}
        workspace_patch = make_patch(read_files(self.snapshot.tree, shown), shown)
        workspace = make_workspace(self.snapshot, workspace_patch, git=True)
        await self.stages.visible_suite(workspace.path, measured.passing, set())
        proposals = versions_of(self.snapshot.tree, candidate.exercise, tests)
        limit = min(MOST_SECONDS, 4.0 + 3.0 * self.snapshot.baseline.seconds, suite_limit(self.snapshot))
        versions = await self._noticed(workspace.path, oracle, proposals, limit, tests)
        wrong = sum(not version.is_right for version in versions)
        context = StatementContext(
            package=f"{self.snapshot.name} {self.snapshot.version}",
            failing=measured.failing,
            interface=interface_of(tree, candidate.interface, measured.failing),
            messages=measured.messages,
            test_file=oracle.path,
        )
        task = make_row(
            self.snapshot,
            candidate,
            workspace,
            context,
            # Not the measured limit: a row depends on nothing that a clock has measured.
            MutantsVerifier(
                test_file=oracle.path, versions=pack(versions), least_share=tests.least_share, timeout_s=MOST_SECONDS
            ),
            patch=make_patch({oracle.path: None}, oracle.files),
            workspace_patch=workspace_patch,
            source_globs=[oracle.path],
            protected_paths=protected_but(self.snapshot, tree, oracle.path),
        )
        numbers = {"oracle_tests": len(oracle.tests), "right_versions": len(versions) - wrong, "wrong_versions": wrong}
        task = task.model_copy(update={"features": {**numbers, **task.features}})
        await self._scored(task, oracle)
        self._refuse_leaks(task, candidate.exercise)
        return task

    async def _measured(self, tree: SourceTree, candidate: Candidate, tests: WrittenTests) -> Measured:
        """Return the tests that leave the workspace, as failing, and those that stay, as passing."""
        if tests.oracle:
            hidden = {(test_file(test), *split_test_id(test)[1]) for test in tests.oracle}
            passed = self.snapshot.baseline.passed
            stay = [test for test in passed if (test_file(test), *split_test_id(test)[1]) not in hidden]
            return Measured(list(tests.oracle), stay, {})
        with scratch_tree(
            self.snapshot, make_patch(read_files(self.snapshot.tree, candidate.exercise), candidate.exercise)
        ) as full:
            await self.stages.v0(tree, candidate, full)
            return await self.stages.v1_v2(full, candidate, self.snapshot.baseline.passed)

    async def _noticed(
        self, workspace: Path, oracle: _Oracle, versions: Sequence[Version], limit: float, tests: WrittenTests
    ) -> list[Version]:
        """Return the right versions, and the first wrong ones that the oracle notices without a timeout."""
        sandbox = await open_sandbox(self.snapshot.layers(workspace), backend=self.stages.backend)
        try:
            await write_files(sandbox, oracle.files)
            runs = await runs_on(sandbox, self.snapshot, oracle.path, versions, limit)
        finally:
            await sandbox.close()
        pairs = list(zip(versions, runs, strict=True))
        right = [(version, run) for version, run in pairs if version.is_right]
        for version, run in right:
            if problem := not_passed(run):
                kind = "v3_oracle" if version == right[0][0] else "v3_variant"
                raise Rejected(kind, f"on a right version: {problem[0]}: {problem[1]}")
        ids = {test for _, run in right for test in run.order}
        noticed = [version for version, run in pairs if not version.is_right and run.complete and notices(run, ids)]
        if len(noticed) < tests.least:
            tried = len(versions) - len(right)
            raise Rejected("v1_too_few_mistakes", f"the tests notice {len(noticed)} of {tried} mistakes")
        return [*(version for version, _ in right), *noticed[: tests.most]]

    async def _scored(self, task: Task, oracle: _Oracle) -> None:
        """Check that the oracle scores 1 twice, and that trivial attempts score 0. Raises Rejected."""
        orders: tuple[Order, ...] = ("given", "reversed")
        for order in orders:
            result = await grade(
                task, as_changes(oracle.files), backend=self.stages.backend, snapshot=self.snapshot, order=order
            )
            if result.reward.value != 1.0:
                causes = [f"{failure.test}: {failure.cause}" for failure in result.failures]
                causes += [
                    f"{item.exploit_id}: {item.excerpt}" for item in result.findings if item.severity == "confirmed"
                ]
                raise Rejected("v3_oracle", f"{order} order: {causes[0] if causes else result.end_cause}")
        trivial = await rewarded_tests(task, Materials(task, self.snapshot), self.stages.backend)
        if trivial:
            reason = "v3_noop" if trivial[0] == "nothing" else "v5_trivial_solution"
            raise Rejected(reason, f"the trivial attempt {trivial[0]!r} scores more than 0")

    def _refuse_leaks(self, task: Task, exercise: Files) -> None:
        """Check that neither the tests nor the right source are readable. Raises Rejected."""
        trees = Materials(task, self.snapshot)
        leaks = copies_of_tests(self.leaks.find(task, trees, Exercise.of(task, trees)))
        if exercise:
            corrected = make_patch(exercise, read_files(self.snapshot.tree, exercise))
            row = task.model_copy(update={"patch": corrected})
            trees = Materials(row, self.snapshot)
            leaks += self.leaks.find(row, trees, Exercise.of(row, trees))
        if leaks:
            raise Rejected("v4_leak", str(leaks[0]))


def copies_of_tests(leaks: Sequence[Leak]) -> list[Leak]:
    """Return the leaks that give tests away: lines of code. Their names and constants occur in the data of tests."""
    return [leak for leak in leaks if leak.needle == "code"]


async def rewarded_tests(task: Task, trees: Materials, backend: str) -> list[str]:
    """Return the names of the trivial attempts that score more than 0. Raises GraderError, SandboxError."""
    rewarded = []
    for name, files in probes(task, trees).items():
        result = await grade(task, as_changes(files), backend=backend, snapshot=trees.snapshot)
        if result.reward.value != 0.0:
            rewarded.append(name)
    return rewarded


def make_oracle(snapshot: Snapshot, tree: SourceTree, tests: Sequence[str], spec: WrittenTests) -> _Oracle:
    """Return a copy of the tests of one file, without the file's other tests, under a new name. Raises Rejected."""
    counts = Counter(test_file(test) for test in tests if test_file(test) in tree.python_files)
    if not counts:
        raise Rejected("v0_oracle", "the tests are in no Python file")
    path = spec.copied or max(sorted(counts), key=counts.__getitem__)
    copied = [test for test in tests if test_file(test) == path]
    names = {tuple(split_test_id(test)[1]) for test in copied}
    in_file = [test for test in [*snapshot.baseline.passed, *snapshot.baseline.dropped] if test_file(test) == path]
    others = [test for test in in_file if tuple(split_test_id(test)[1]) not in names]
    content = hide(tree, others).get(path, tree.python_files[path]) if others else tree.python_files[path]
    if content is None:
        raise Rejected("v0_oracle", f"the tests of {path} cannot be separated from the others in the file")
    return _Oracle(new_test_file(snapshot.tree, path, spec.stem), content, copied)


def new_test_file(tree: Path, beside: str, stem: str) -> str:
    """Return a path in the folder of ``beside`` that no file of the tree has."""
    folder = beside.rpartition("/")[0]
    numbers = ["", *(f"_{number}" for number in range(2, 100))]
    names = (f"test_{stem}{number}.py" for number in numbers)
    return next(path for name in names if not (tree / (path := f"{folder}/{name}".lstrip("/"))).exists())


def versions_of(tree: Path, exercise: Files, tests: WrittenTests) -> list[Version]:
    """Return all proposed versions, right ones first; each states every file in which one of them differs."""
    paths = sorted({path for files in [*tests.right, *tests.wrong] for path in files})
    workspace = {**read_files(tree, paths), **{path: exercise[path] for path in paths if path in exercise}}

    def version(is_right: bool, files: Files) -> Version:
        return Version(is_right, {path: _text({**workspace, **files}[path]) for path in paths})

    return [*(version(True, files) for files in tests.right), *(version(False, files) for files in tests.wrong)]


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "surrogateescape")
