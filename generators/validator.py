"""The validator: a Candidate becomes a Task only after everything that is said of it was seen to happen.

Cheap stages come first, and each rejection carries its reason:

V0  the exercise parses and every module that could be imported still can;
V1  of the tests that touch the deleted code, at least one fails now, inside itself;
V2  the whole suite runs; what fails is FAIL_TO_PASS, what is left passes and is PASS_TO_PASS; the workspace as the
    agent gets it (hidden tests gone) passes what it still holds;
V3  the oracle scores 1 twice, in two orders, each in a fresh sandbox; doing nothing scores 0 and fails every
    FAIL_TO_PASS;
V5  trivial bodies score 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..environments.grading import grade, matches
from ..environments.sandbox import Change, Sandbox, open_sandbox
from ..environments.snapshots import Snapshot, Workspace, make_workspace, scratch_tree
from ..environments.snapshots.patches import make_patch
from ..environments.snapshots.testrun import TestRun, run_tests
from ..models import Grade, InterfaceItem, SnapshotRef, Task
from . import Candidate, Files
from .hidden_tests import hide, names_target, test_file
from .interface import interface
from .python_source import Module, compiles
from .source_tree import SourceTree
from .statement import deletion_statement
from .task_id import task_id

MAX_FAILING_SHARE = 0.5

_PROTECTED = [
    ".git/**",
    "**/conftest.py",
    "**/test_*.py",
    "**/*_test.py",
    "**/sitecustomize.py",
    "**/usercustomize.py",
    "**/*.pth",
    "**/*.dist-info/**",
    "**/*.egg-info/**",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "pytest.ini",
    "tox.ini",
]

_IMPORT_ALL = """
import importlib, json, sys
sys.path[:0] = json.loads(sys.argv[1])
failed = {}
for name in json.loads(sys.argv[2]):
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed[name] = f"{type(error).__name__}: {error}"[:200]
print("\\n" + json.dumps(failed))
"""


class Rejected(Exception):
    """A candidate that did not hold; ``reason`` is counted, ``detail`` is for the curious."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


@dataclass
class Validator:
    """Runs the stages for candidates of one Snapshot; holds nothing but what every candidate shares."""

    snapshot: Snapshot
    backend: str = "auto"
    _importable: list[str] | None = field(default=None, repr=False)

    async def task(self, candidate: Candidate) -> Task:
        """The Task that ``candidate`` becomes. Raises Rejected with the stage's reason."""
        tree = SourceTree.of(self.snapshot)
        base = self._base(candidate.exercise)
        with scratch_tree(self.snapshot, make_patch(base, candidate.exercise)) as stubbed:
            await self._v0(tree, candidate, stubbed)
            fail_to_pass, pass_to_pass = await self._v1_v2(stubbed, candidate)
        task, workspace = self._assemble(tree, candidate, fail_to_pass, pass_to_pass)
        await self._visible_suite(workspace.path, pass_to_pass)
        await self._v3(task, candidate, base)
        await self._v5(task, candidate)
        return task

    @property
    def time_limit(self) -> float:
        """Seconds that one run may take: a stub that makes a parser loop must not cost five minutes each time."""
        return min(self.snapshot.verifier.timeout_s, 20.0 + 10.0 * self.snapshot.baseline.seconds)

    def _base(self, files: Iterable[str]) -> Files:
        """The Snapshot's own content of the paths given."""
        base: Files = {}
        for path in files:
            file = self.snapshot.tree / path
            base[path] = file.read_bytes() if file.is_file() else None
        return base

    async def _open(self, tree: Path) -> Sandbox:
        return await open_sandbox(self.snapshot.layers(tree), backend=self.backend)

    async def _run(self, tree: Path, tests: list[str] | None = None) -> TestRun:
        sandbox = await self._open(tree)
        try:
            return await run_tests(sandbox, self.snapshot.verifier, tests, timeout_s=self.time_limit)
        finally:
            await sandbox.close()

    # --- the stages -----------------------------------------------------------------------------------------

    async def _v0(self, tree: SourceTree, candidate: Candidate, stubbed: Path) -> None:
        for path, content in candidate.exercise.items():
            if content is None or not path.endswith(".py"):
                continue
            problem = compiles(path, content)
            if problem or Module(path, content).broken:
                raise Rejected("v0_syntax", f"{path}: {problem or 'tree-sitter finds an error'}")
        if self._importable is None:
            names = sorted({tree.dotted_name(module.path) for module in tree.modules()})
            names = [name for name in names if all(part.isidentifier() for part in name.split("."))]
            with scratch_tree(self.snapshot) as pristine:
                broken = await self._import_failures(pristine, names)
            self._importable = [name for name in names if name not in broken]
        failed = await self._import_failures(stubbed, self._importable)
        if failed:
            name, problem = next(iter(failed.items()))
            raise Rejected("v0_import", f"{name}: {problem}")

    async def _import_failures(self, tree: Path, names: list[str]) -> dict[str, str]:
        sandbox = await self._open(tree)
        try:
            path = json.dumps([f"/workspace/{item}".removesuffix("/.") for item in self.snapshot.verifier.python_path])
            result = await sandbox.exec(["python", "-c", _IMPORT_ALL, path, json.dumps(names)])
        finally:
            await sandbox.close()
        try:
            found: dict[str, str] = json.loads(result.output.decode("utf-8", "replace").strip().splitlines()[-1])
        except (ValueError, IndexError):
            return {"*": f"importing ended with exit code {result.exit_code}"}
        return found

    async def _v1_v2(self, full: Path, candidate: Candidate) -> tuple[list[str], list[str]]:
        first = await self._run(full, candidate.affected)
        if not any(_fails(first, test) for test in candidate.affected):
            raise Rejected("v1_no_test_fails", f"{len(candidate.affected)} tests touch it, all pass without it")
        run = await self._run(full)
        if not run.complete:
            raise Rejected("v2_suite_breaks", run.cause)
        stable = self.snapshot.baseline.passed
        touched_files = {test_file(test) for test in candidate.affected}
        outside = sorted(set(run.collect_errors) - touched_files)
        if outside:
            raise Rejected("v2_collection", f"{outside[0]} can no longer be collected")
        gradable = [test for test in stable if test_file(test) not in candidate.exercise]
        failing = [test for test in gradable if _fails(run, test)]
        passing = [test for test in gradable if not _fails(run, test)]
        if not failing:
            raise Rejected("v2_only_own_doctests", "nothing outside the edited file fails")
        await self._own_reason(full, failing, candidate)
        if len(failing) > MAX_FAILING_SHARE * len(stable):
            raise Rejected("v2_breaks_too_much", f"{len(failing)} of {len(stable)} tests fail")
        if not passing:
            raise Rejected("v2_nothing_left", "no other test passes")
        return failing, passing

    async def _own_reason(self, full: Path, failing: list[str], candidate: Candidate) -> None:
        """A test that fails without touching the deleted code must fail without the other failing tests too."""
        suspects = sorted(set(failing) - set(candidate.affected))
        if not suspects:
            return
        alone = await self._run(full, suspects)
        if not alone.complete:
            raise Rejected("v2_suite_breaks", alone.cause)
        dragged = [test for test in suspects if not _fails(alone, test)]
        if dragged:
            raise Rejected("v2_side_effect", f"{dragged[0]} fails only after other failing tests")

    async def _visible_suite(self, workspace: Path, pass_to_pass: list[str]) -> None:
        run = await self._run(workspace)
        if not run.complete or run.collect_errors:
            raise Rejected("v2_workspace_suite", run.cause or f"cannot collect {sorted(run.collect_errors)[0]}")
        broken = [test for test in pass_to_pass if test in run.outcomes and _fails(run, test)]
        if broken:
            raise Rejected("v2_workspace_suite", f"{broken[0]} fails once the hidden tests are gone")

    async def _v3(self, task: Task, candidate: Candidate, base: Files) -> None:
        solution = _changes({path: base[path] for path in candidate.exercise if path.endswith(".py")})
        orders: tuple[Literal["given", "reversed"], ...] = ("given", "reversed")
        for order in orders:
            result = await self._grade(task, solution, order)
            if result.reward.value != 1.0:
                raise Rejected("v3_oracle", f"{order} order: {_first_failure(result)}")
        nothing = await self._grade(task, [])
        survivors = set(task.FAIL_TO_PASS) - {failure.test for failure in nothing.failures}
        if nothing.reward.value != 0.0 or survivors:
            raise Rejected("v3_noop", f"{sorted(survivors)[0] if survivors else 'the reward'} does not need a solution")
        if nothing.reward.components.get("pass_to_pass") != 1.0:
            raise Rejected("v3_pass_to_pass", _first_failure(nothing))

    async def _v5(self, task: Task, candidate: Candidate) -> None:
        only_target = task.model_copy(update={"PASS_TO_PASS": []})
        for name, files in candidate.probes.items():
            changes = _changes(files)
            # Most probes fail at once; only one that gets past the hidden tests is worth the whole grade.
            if (await self._grade(only_target, changes)).reward.value == 0.0:
                continue
            if (await self._grade(task, changes)).reward.value != 0.0:
                raise Rejected("v5_trivial_solution", f"the body {name!r} passes every hidden test")

    async def _grade(self, task: Task, changes: list[Change], order: Literal["given", "reversed"] = "given") -> Grade:
        bounded = task.verifier.model_copy(update={"timeout_s": self.time_limit})
        task = task.model_copy(update={"verifier": bounded})
        return await grade(task, changes, backend=self.backend, snapshot=self.snapshot, order=order)

    # --- the row --------------------------------------------------------------------------------------------

    def _assemble(
        self, tree: SourceTree, candidate: Candidate, fail_to_pass: list[str], pass_to_pass: list[str]
    ) -> tuple[Task, Workspace]:
        visible = candidate.generator.knobs.get("tests") == "visible"
        hidden = {} if visible else hide(tree, fail_to_pass)
        shown = {**candidate.exercise, **hidden}
        base = self._base(shown)
        sources = [path for path in candidate.exercise if path.endswith(".py")]
        workspace_patch = make_patch(base, shown)
        workspace = make_workspace(self.snapshot, workspace_patch, git=True)
        target = _target(candidate.facts)
        names = interface(tree, target, fail_to_pass)
        snapshot = self.snapshot
        package = f"{snapshot.name} {snapshot.version}"
        first = sorted(fail_to_pass, key=lambda test: not names_target(tree, test, candidate.facts["name"]))
        task = Task(
            task_id=task_id(snapshot, candidate),
            repo=snapshot.name,
            version=snapshot.version,
            base_commit=workspace.commit,
            snapshot=SnapshotRef(digest=snapshot.digest, recipe=snapshot.recipe.model_dump(mode="json")),
            generator=candidate.generator,
            problem_statement=deletion_statement(package, candidate.facts, first, names, visible=visible),
            interface=names,
            patch=make_patch({path: shown[path] for path in sources}, {path: base[path] for path in sources}),
            test_patch=make_patch(hidden, {path: base[path] for path in hidden}),
            workspace_patch=workspace_patch,
            FAIL_TO_PASS=fail_to_pass,
            PASS_TO_PASS=pass_to_pass,
            source_globs=snapshot.source_globs,
            protected_paths=protected_paths(tree),
            verifier=snapshot.verifier,
            features={**candidate.features, **_features(fail_to_pass, pass_to_pass, candidate)},
            licence=snapshot.licence,
        )
        return task, workspace


def protected_paths(tree: SourceTree) -> list[str]:
    """What an agent's diff may never hold: tests, whatever serves them, and configuration."""
    folders = {path.rsplit("/", 1)[0] for path in tree.tests if "/" in path}
    test_folders = sorted(f"{folder}/**" for folder in folders if tree.is_test(f"{folder}/x.py"))
    covered = [*_PROTECTED, *test_folders]
    return [*covered, *sorted(path for path in tree.tests if not matches(path, covered))]


def _target(facts: dict[str, Any]) -> InterfaceItem:
    return InterfaceItem(name=f"{facts['module']}.{facts['name']}", kind="function", signature=facts["signature"])


def _features(failing: list[str], passing: list[str], candidate: Candidate) -> dict[str, int]:
    return {"fail_to_pass": len(failing), "pass_to_pass": len(passing), "files": len(candidate.exercise)}


def _changes(files: Files) -> list[Change]:
    return [
        Change(path=path, kind="file" if content is not None else "deleted", size=len(content or b""), content=content)
        for path, content in sorted(files.items())
    ]


def _fails(run: TestRun, test: str) -> bool:
    """Not passed, in a way that a solution can change: an error while collecting its own file counts."""
    outcome = run.outcomes.get(test)
    return outcome is None or outcome.outcome not in ("passed", "xfailed")


def _first_failure(result: Grade) -> str:
    failure = next(iter(result.failures), None)
    return f"{failure.test}: {failure.cause}" if failure else result.end_cause
