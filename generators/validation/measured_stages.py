"""The measured stages V0 to V2: a candidate's tree is built, imported and tested; ``Validator`` says in which order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ...environments.sandbox import Sandbox, open_sandbox
from ...environments.snapshots import Snapshot, scratch_tree
from ...environments.snapshots.test_run.test_runner import TestRun, run_tests
from ...errors import Rejected
from ..base import Candidate, Files
from ..python.hidden_tests import test_file
from ..python.source import Module, compiles
from ..python.source_tree import SourceTree

MAX_FAILING_SHARE = 0.5

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


@dataclass
class Stages:
    """Runs on one Snapshot; holds nothing but what every candidate shares."""

    snapshot: Snapshot
    backend: str = "auto"
    _importable: list[str] | None = field(default=None, repr=False)

    @property
    def time_limit(self) -> float:
        """Seconds that one run may take: a stub that makes a parser loop must not cost five minutes each time."""
        return min(self.snapshot.verifier.timeout_s, 20.0 + 10.0 * self.snapshot.baseline.seconds)

    def base(self, files: Iterable[str]) -> Files:
        """The Snapshot's own content of the paths given."""
        base: Files = {}
        for path in files:
            file = self.snapshot.tree / path
            base[path] = file.read_bytes() if file.is_file() else None
        return base

    async def open(self, tree: Path) -> Sandbox:
        return await open_sandbox(self.snapshot.layers(tree), backend=self.backend)

    async def run(self, tree: Path, tests: list[str] | None = None) -> TestRun:
        sandbox = await self.open(tree)
        try:
            return await run_tests(sandbox, self.snapshot.verifier, tests, timeout_s=self.time_limit)
        finally:
            await sandbox.close()

    async def v0(self, tree: SourceTree, candidate: Candidate, edited: Path) -> None:
        """Everything parses, and every module that could be imported still can."""
        for path, content in [*candidate.exercise.items(), *candidate.tests.items()]:
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
        failed = await self._import_failures(edited, self._importable)
        if failed:
            name, problem = next(iter(failed.items()))
            raise Rejected("v0_import", f"{name}: {problem}")

    async def _import_failures(self, tree: Path, names: list[str]) -> dict[str, str]:
        sandbox = await self.open(tree)
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

    async def v1_v2(self, full: Path, candidate: Candidate) -> tuple[list[str], list[str]]:
        """FAIL_TO_PASS and PASS_TO_PASS as measured on ``full``, whose test files are ``candidate.tests``."""
        first = await self.run(full, candidate.affected)
        if not any(fails(first, test) for test in candidate.affected):
            raise Rejected("v1_no_test_fails", f"{len(candidate.affected)} tests touch it, all pass without it")
        run = await self.run(full)
        if not run.complete:
            raise Rejected("v2_suite_breaks", run.cause)
        stable = self.snapshot.baseline.passed
        # A file that was rewritten must be collected: its other tests are to be told from those that need the name.
        touched = {test_file(test) for test in candidate.affected} - candidate.tests.keys()
        outside = sorted(set(run.collect_errors) - touched)
        if outside:
            raise Rejected("v2_collection", f"{outside[0]}: {run.collect_errors[outside[0]][-200:]}")
        gradable = [test for test in stable if test_file(test) not in candidate.exercise]
        failing = [test for test in gradable if fails(run, test)]
        passing = [test for test in gradable if not fails(run, test)]
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
        alone = await self.run(full, suspects)
        if not alone.complete:
            raise Rejected("v2_suite_breaks", alone.cause)
        dragged = [test for test in suspects if not fails(alone, test)]
        if dragged:
            raise Rejected("v2_side_effect", f"{dragged[0]} fails only after other failing tests")

    async def visible_suite(self, workspace: Path, pass_to_pass: list[str], importing: set[str]) -> None:
        """What the agent can run passes; files that it must make importable first (``importing``) may wait."""
        run = await self.run(workspace)
        errors = sorted(path for path in run.collect_errors if not below_any(path, importing))
        if errors or not (run.complete or run.collect_errors):
            raise Rejected("v2_workspace_suite", f"cannot collect {errors[0]}" if errors else run.cause)
        broken = [test for test in pass_to_pass if test in run.outcomes and fails(run, test)]
        if broken:
            raise Rejected("v2_workspace_suite", f"{broken[0]} fails once the hidden tests are gone")


def fails(run: TestRun, test: str) -> bool:
    """Not passed, in a way that a solution can change: an error while collecting its own file counts."""
    outcome = run.outcomes.get(test)
    return outcome is None or outcome.outcome not in ("passed", "xfailed")


def below_any(path: str, files: Iterable[str]) -> bool:
    """Whether ``path`` is one of ``files``, or is served by one that is a conftest or another helper of its folder."""
    for file in files:
        folder, _, name = file.rpartition("/")
        is_helper = not (name.startswith("test") or name.endswith("_test.py"))
        if path == file or (is_helper and (not folder or path.startswith(folder + "/"))):
            return True
    return False
