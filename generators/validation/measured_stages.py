"""The measured stages V0 to V2: a candidate's tree is built, imported and tested. ``pipeline`` calls them in order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...environments.sandbox import Sandbox, open_sandbox
from ...environments.snapshots import Snapshot
from ...environments.snapshots.test_run.test_runner import Order, TestRun, run_tests
from ...errors import Rejected
from ..base import Candidate, Example, FailingCall, Files, ScheduledStep
from ..python.hidden_tests import test_file
from ..python.source import Module, compile_error
from ..python.source_tree import SourceTree
from .limits import OVERLOAD, conclusive, refuse_overload, suite_limit

_UNDECIDED = ("skipped", "xfailed", "xpassed")
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


@dataclass(frozen=True)
class Measured:
    """The tests that a candidate breaks, and those that it does not."""

    failing: list[str]  # FAIL_TO_PASS
    passing: list[str]  # PASS_TO_PASS
    messages: dict[str, str]  # how failing tests fail, where two runs agree
    failing_calls: list[FailingCall] = field(default_factory=list)  # calls that failing tests make, if asked for
    examples: list[Example] = field(default_factory=list)  # calls with their right results, if asked for
    older: str = ""  # the older version of a dependency with which the failing tests pass, if there is a migration


@dataclass
class Stages:
    """Runs on one Snapshot; the state is what all its candidates share."""

    snapshot: Snapshot  # the Snapshot of the candidates
    backend: str = "auto"  # the sandbox backend
    _importable: list[str] | None = field(default=None, repr=False)

    async def open(self, tree: Path) -> Sandbox:
        """Return a sandbox that shows ``tree``; the caller closes it."""
        return await open_sandbox(self.snapshot.layers(tree), backend=self.backend)

    async def run(self, tree: Path, tests: list[str] | None = None, order: Order = "given") -> TestRun:
        """Run ``tests`` (default: all) on ``tree`` in a sandbox of their own."""
        sandbox = await self.open(tree)
        try:
            limit = suite_limit(self.snapshot)
            return conclusive(await run_tests(sandbox, self.snapshot.verifier, tests, order=order, timeout_s=limit))
        finally:
            await sandbox.close()

    async def v0(self, tree: SourceTree, candidate: Candidate, edited: Path) -> None:
        """Check that everything parses, and that every module which could be imported still can. Raises Rejected."""
        _check_syntax({**candidate.exercise, **candidate.hidden_tests.rewritten})
        if candidate.migration is None:
            await self._check_imports(tree, candidate.exercise, edited)

    async def solved(self, tree: SourceTree, candidate: Candidate, solved: Path) -> list[str]:
        """Return the tests that a task may expect of a candidate which brings its solution or tests, in suite order.

        They pass on ``solved``, the Snapshot with both. Raises Rejected for a solution that cannot be imported, and
        for one that fails a test of the baseline which the candidate does not replace.
        """
        tests = candidate.hidden_tests
        _check_syntax({**candidate.solution, **tests.added})
        await self._check_imports(tree, candidate.solution, solved)
        run = await self.run(solved)
        if not run.complete:
            raise Rejected("v2_solution", f"the suite does not end with the solution: {run.cause}")
        replaced = tests.added.keys() | candidate.solution.keys()  # sources hold doctests
        baseline = self.snapshot.baseline
        later = set(tests.step.later) if tests.step else set()
        retained = [test for test in baseline.passed if test_file(test) not in replaced and test not in later]
        of_added = [test for test in run.order if test_file(test) in tests.added and test not in baseline.dropped]
        graded = [test for test in of_added if run.outcomes[test].outcome not in _UNDECIDED]
        broken = next((test for test in [*retained, *graded] if fails(run, test)), None)
        if broken:
            raise Rejected("v2_solution", f"{broken} fails with the solution: {failure_text(run, broken)[:200]}")
        expected = {*retained, *graded}
        return [test for test in run.order if test in expected]

    async def _check_imports(self, tree: SourceTree, changed: Files, edited: Path) -> None:
        """Check that every module which can be imported in the Snapshot still can, and any new one. Raises Rejected."""
        if self._importable is None:
            names = _module_names(tree, (module.path for module in tree.modules()))
            broken = await self._import_failures(self.snapshot.tree, names)
            self._importable = [name for name in names if name not in broken]
        gone = {tree.dotted_name(path) for path, content in changed.items() if content is None}
        new = (
            path for path in changed if path.endswith(".py") and tree.is_source(path) and path not in tree.python_files
        )
        expected = [*self._importable, *_module_names(tree, new)]
        failed = await self._import_failures(edited, [name for name in expected if name not in gone])
        if failed:
            name, problem = next(iter(failed.items()))
            raise Rejected("v0_import", f"{name}: {problem}")

    async def _import_failures(self, tree: Path, names: list[str]) -> dict[str, str]:
        """Return why modules cannot be imported, by name; ``*`` when the import ended the interpreter."""
        sandbox = await self.open(tree)
        try:
            path = json.dumps([f"/workspace/{item}".removesuffix("/.") for item in self.snapshot.verifier.python_path])
            limit = suite_limit(self.snapshot)
            command = ["python", "-c", _IMPORT_ALL, path, json.dumps(names)]
            result = await sandbox.exec(command, timeout_s=OVERLOAD * limit, cpu_s=limit, idle_s=limit)
        finally:
            await sandbox.close()
        if result.timed_out:
            refuse_overload()
            raise Rejected("v0_import", f"importing the package did not end within {limit:.0f} seconds of CPU time")
        try:
            failures: dict[str, str] = json.loads(result.output.decode("utf-8", "replace").strip().splitlines()[-1])
        except (ValueError, IndexError):
            return {"*": f"importing ended with exit code {result.exit_code}"}
        return failures

    async def v1_v2(
        self,
        full: Path,
        candidate: Candidate,
        stable: Sequence[str],
        first: TestRun | None = None,
        run: TestRun | None = None,
    ) -> Measured:
        """Return FAIL_TO_PASS and PASS_TO_PASS, measured on ``full``. Raises Rejected.

        The test files of ``full`` are the candidate's added and rewritten ones; ``stable`` are the tests that pass with
        the solution, ``first`` is a run of the affected tests and ``run`` one of the whole suite, where warm runs have
        shown them.
        """
        affected = list(candidate.hidden_tests.affected)
        first = first or await self.run(full, affected)
        if not any(fails(first, test) for test in affected):
            raise Rejected("v1_no_test_fails", f"{len(affected)} tests run the changed code, all of them still pass")
        run = run or await self.run(full)
        if not run.complete:
            raise Rejected("v2_suite_breaks", run.cause)
        # A rewritten file must be collected: only then is it clear which of its tests need the names.
        expected = {test_file(test) for test in affected} - candidate.hidden_tests.rewritten.keys()
        edited_files = candidate.exercise.keys() | candidate.solution.keys()
        outside = sorted(set(self._new_errors(run)) - expected)
        if outside:
            raise Rejected("v2_collection", f"{outside[0]}: {collect_error(run, outside[0])}")
        gradable = [test for test in stable if test_file(test) not in edited_files]
        failing = [test for test in gradable if fails(run, test)]
        passing = [test for test in gradable if not fails(run, test)]
        if not failing:
            raise Rejected("v2_only_own_doctests", "no test outside the edited files fails")
        await self._check_own_reason(full, failing, affected)
        broken = [test for test in failing if test_file(test) not in candidate.hidden_tests.added]
        if len(broken) > candidate.max_failing_share * len(stable):
            raise Rejected("v2_breaks_too_much", f"{len(broken)} of {len(stable)} tests fail")
        if not passing and candidate.max_failing_share < 1:
            raise Rejected("v2_nothing_left", "no other test passes")
        messages = {test: text for test in failing if (text := failure_text(run, test)) == failure_text(first, test)}
        return Measured(failing, passing, {test: text for test, text in messages.items() if text})

    def _new_errors(self, run: TestRun) -> list[str]:
        """Return what could not be collected, without files and classes that have no stable test in the Snapshot."""
        return [
            path
            for path in run.collect_errors
            if not test_file(path).endswith(".py")
            or any(test.startswith(f"{path}::") for test in self.snapshot.baseline.passed)
        ]

    async def _check_own_reason(self, full: Path, failing: list[str], affected: list[str]) -> None:
        """Check that tests which fail without running the changed code also fail without the other failing tests."""
        suspects = sorted(set(failing) - set(affected))
        if not suspects:
            return
        alone = await self.run(full, suspects)
        if not alone.complete:
            raise Rejected("v2_suite_breaks", alone.cause)
        dependent = [test for test in suspects if not fails(alone, test)]
        if dependent:
            raise Rejected("v2_side_effect", f"{dependent[0]} fails only after other failing tests")

    async def scheduled(
        self, step: ScheduledStep, affected: Sequence[str], failing: Sequence[str], workspace: Path
    ) -> None:
        """Check that a step breaks no test but its own, and that the test that it gives fails in the workspace.

        Raises Rejected.
        """
        broken = sorted(set(failing) - set(affected))
        if broken:
            raise Rejected("v2_schedule", f"{broken[0]} fails, but is not part of the step")
        failing_cases = [test for test in step.given_cases if test in failing]
        if not failing_cases:
            raise Rejected("v2_schedule", f"{step.given_cases[0]} passes before the step")
        if "[" not in failing_cases[0]:  # a test that lost assertions; the shown cases of others are as they were
            run = await self.run(workspace, [failing_cases[0]])
            if not fails(run, failing_cases[0]):
                raise Rejected("v2_schedule", f"what the workspace shows of {failing_cases[0]} passes before the step")

    async def visible_suite(
        self, workspace: Path, pass_to_pass: list[str], importing: set[str], tests: list[str] | None = None
    ) -> None:
        """Check that what the agent can run passes, except files that wait for missing names (``importing``).

        ``tests`` are those to run (default: all). Raises Rejected.
        """
        if not pass_to_pass:  # a workspace without any test has no suite that pytest could start
            return
        run = await self.run(workspace, tests)
        errors = sorted(path for path in self._new_errors(run) if not below_any(path, importing))
        if errors:
            raise Rejected("v2_workspace_suite", f"cannot collect {errors[0]}: {collect_error(run, errors[0])}")
        if not (run.complete or run.collect_errors):
            raise Rejected("v2_workspace_suite", run.cause)
        # A case of a parametrized test leaves with the others when one of them is hidden.
        broken = [test for test in pass_to_pass if test in run.outcomes and fails(run, test)]
        if broken:
            problem = run.outcomes[broken[0]]
            cause = f"{problem.exception} {problem.message}".strip() or problem.outcome
            raise Rejected("v2_workspace_suite", f"{broken[0]} fails once the hidden tests are gone: {cause[:200]}")


def _check_syntax(files: Files) -> None:
    """Check that Python files compile. Raises Rejected."""
    for path, content in files.items():
        if content is None or not path.endswith(".py"):
            continue
        problem = compile_error(path, content)
        if problem or Module(path, content).broken:
            raise Rejected("v0_syntax", f"{path}: {problem or 'tree-sitter finds an error'}")


def _module_names(tree: SourceTree, paths: Iterable[str]) -> list[str]:
    """Return the dotted names of modules that an import statement can name, sorted."""
    names = sorted({tree.dotted_name(path) for path in paths})
    return [name for name in names if all(part.isidentifier() for part in name.split("."))]


def fails(run: TestRun, test: str) -> bool:
    """Return whether a test did not pass; a test whose file cannot be collected fails."""
    outcome = run.outcomes.get(test)
    return outcome is None or outcome.outcome not in ("passed", "xfailed")


def failure_text(run: TestRun, test: str) -> str:
    """Return exception and message of a failed test, without addresses and temporary places; empty without one."""
    outcome = run.outcomes.get(test)
    if outcome is None or not outcome.exception:
        return ""
    message = re.sub(r"\b0x[0-9a-f]{6,}", "0x...", outcome.message)
    message = re.sub(r"/tmp/[^\s'\")\]},:;]*", "/tmp/...", message)
    return f"{outcome.exception}: {message}".rstrip(": \n")


def collect_error(run: TestRun, path: str) -> str:
    """Return the end of the message with which pytest refused a file."""
    return run.collect_errors[path][-200:].strip() or "pytest gives no reason"


def below_any(path: str, files: Iterable[str]) -> bool:
    """Return whether ``path`` is one of ``files``, or uses one that is a conftest or another helper of its folder."""
    for file in files:
        folder, _, name = file.rpartition("/")
        is_helper = not (name.startswith("test") or name.endswith("_test.py"))
        if path == file or (is_helper and (not folder or path.startswith(folder + "/"))):
            return True
    return False
