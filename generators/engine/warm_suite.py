"""Trials of many changes in one sandbox: the package is imported and the tests are collected once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...environments.sandbox import open_sandbox
from ...environments.snapshots import Snapshot
from ...environments.snapshots.test_run.impact import entities
from ...environments.snapshots.test_run.result_records import RUN_SHAPES, verified
from ...environments.snapshots.test_run.test_runner import Outcome, TestRun, run_plugin
from ..validation.limits import refuse_overload, suite_limit

CPU_FACTOR, CPU_EXTRA_S = 10.0, 0.5
"""A trial may use CPU_EXTRA_S seconds of CPU time and CPU_FACTOR times what its tests use in the unchanged package."""
CODE_EXCHANGE = Path(__file__).with_name("code_exchange.py")
"""The file whose text exchanges the code of functions in a sandbox."""
TIMEOUT, ENDED = "timeout", "ended early"
"""Causes of trials whose change the tests noticed without an outcome."""
_SHAPES: dict[str, dict[str, type]] = {
    **RUN_SHAPES,
    "trial": {"id": str, "cause": str, "passed": list, "outcomes": dict, "processes": list, "sharing": list},
}


@dataclass(frozen=True)
class Trial:
    """A change of the package, and the tests that are run with it."""

    files: Mapping[str, bytes]
    """Path to content, where that differs from the Snapshot."""
    tests: Sequence[str]
    """Ids of the tests, in the order in which they run."""
    first_failure: bool = False
    """Whether the first failing test ends the trial."""
    survey: bool = False
    """Whether to note what ties the tests to each other; for the unchanged package."""


@dataclass(frozen=True)
class Survey:
    """What ties the tests of a Snapshot to each other and to other processes."""

    processes: frozenset[str]
    """Ids of the tests that start processes."""
    sharing: Sequence[Sequence[str]]
    """Groups of tests that share a fixture of a wider scope whose setup runs code of the package."""

    def closure(self, tests: Iterable[str]) -> set[str]:
        """Return ``tests`` and those that share such a fixture with one of them."""
        chosen = set(tests)
        for group in self.sharing:
            if not chosen.isdisjoint(group):
                chosen.update(group)
        return chosen


@dataclass(frozen=True)
class TrialResult:
    """What the tests of one trial did. A trial with a ``cause`` has no outcomes."""

    passed: frozenset[str] = frozenset()
    """Ids of the tests that passed."""
    others: Mapping[str, Outcome] = field(default_factory=dict)
    """Outcomes of the tests that ran and did not pass."""
    cause: str = ""
    """Why the trial ended without outcomes: ``timeout``, ``ended early``, or ``not swappable`` with a reason."""

    @property
    def noticed(self) -> bool | None:
        """Return whether a test noticed the change, None when the trial did not show it.

        A change with which the tests do not end, or end the interpreter, is noticed.
        """
        if self.cause:
            return True if self.cause in (TIMEOUT, ENDED) else None
        return bool(self.others)

    def as_run(self) -> TestRun:
        """Return the outcomes as those of a complete run."""
        outcomes = {**{test: Outcome("passed") for test in sorted(self.passed)}, **self.others}
        return TestRun(outcomes, list(outcomes), complete=True, cause="")


@dataclass(frozen=True)
class WarmSuite:
    """Runs trials on the pristine tree of a Snapshot."""

    snapshot: Snapshot
    """The Snapshot whose package is changed."""
    backend: str = "auto"
    """The sandbox backend."""

    async def run(self, trials: Sequence[Trial]) -> list[TrialResult]:
        """Return the result of each trial.

        Raises SandboxError when the sandbox fails, OutOfTime when a trial ended at a limit on an overloaded machine.

        The tests also run on the unchanged package, before the trials and after them. A trial proves nothing when one
        of its tests fails there, for example because an earlier trial left something behind; its cause is ``unsteady``.
        """
        refused = {number: reason for number, trial in enumerate(trials) if (reason := self.refusal(trial.files))}
        possible = [trial for number, trial in enumerate(trials) if number not in refused]
        tried = iter(await self._tried(possible) if possible else [])
        return [
            TrialResult(cause=f"not swappable: {refused[number]}") if number in refused else next(tried)
            for number in range(len(trials))
        ]

    async def survey(self) -> Survey | None:
        """Return what ties the tests to each other, from one run of all of them on the unchanged package.

        None where the run does not show it. Raises SandboxError when the sandbox fails.
        """
        tests = self.snapshot.baseline.passed
        if self.snapshot.verifier.kind != "pytest" or not tests:
            return None
        records = await self._records([Trial({}, tests, survey=True)], tests)
        record = records.get("0")
        if record is None or record["cause"] or len(record["passed"]) < len(tests):
            return None
        return Survey(frozenset(record["processes"]), record["sharing"])

    def refusal(self, files: Mapping[str, bytes]) -> str:
        """Return why a process that has imported the package cannot have these contents; empty when it may."""
        if self.snapshot.verifier.kind != "pytest":
            return "the project runs its tests with a program of its own"
        for path, content in files.items():
            if not (self.snapshot.tree / path).is_file():
                return f"{path} is new"
            for name in self._changed_at_import(path, content):
                return f"{name} runs while the package is imported"
        return ""

    def _changed_at_import(self, path: str, content: bytes) -> Iterator[str]:
        """Yield the functions of a file that run at import and whose bodies the change touches, or a line beside it."""
        names = [key.partition("::")[2] for key in self.snapshot.baseline.at_import if key.startswith(f"{path}::")]
        before = (self.snapshot.tree / path).read_bytes()
        if not names or content == before:
            return
        start, stop, _ = _difference(before, content)
        first, last = (before.count(b"\n", 0, offset) for offset in (start, stop))
        for name in names:
            spans = [(body.lines.start - 1, body.lines.stop - 1) for body in _entities(before).get(name, [])]
            if any(first <= end and last >= begin for begin, end in spans):
                yield name

    async def _tried(self, trials: list[Trial]) -> list[TrialResult]:
        tests = list(dict.fromkeys(test for trial in trials for test in trial.tests))
        control = Trial({}, tests)
        records = await self._records([control, *trials, control], tests)
        results = [_result(records.get(str(number))) for number in range(len(trials) + 2)]
        if any(result.cause == TIMEOUT for result in results):
            refuse_overload()
        steady = results[0].passed & results[-1].passed
        return [
            result if steady.issuperset(trial.tests) else TrialResult(cause="unsteady")
            for trial, result in zip(trials, results[1:-1], strict=True)
        ]

    async def _records(self, trials: list[Trial], tests: list[str]) -> dict[str, dict[str, Any]]:
        limit = suite_limit(self.snapshot)
        bounds = {"extra_s": CPU_EXTRA_S, "factor": CPU_FACTOR, "control_s": limit}
        job = {"tests": tests, "order": "given", "coverage": [], "tracebacks": False, **bounds}
        job["sources"] = sorted(self.snapshot.baseline.lines)
        job["trials"] = [_job(self.snapshot.tree, trial) for trial in trials]
        parts = [CODE_EXCHANGE.read_text("utf-8"), Path(__file__).with_name("trials_plugin.py").read_text("utf-8")]
        sandbox = await open_sandbox(self.snapshot.layers(self.snapshot.tree), backend=self.backend)
        try:
            result, key = await run_plugin(sandbox, self.snapshot.verifier, job, parts, len(trials) * limit, 2 * limit)
        finally:
            await sandbox.close()
        records, _ = verified(result.channel, key, _SHAPES)
        return {record["id"]: record for record in records if record["kind"] == "trial"}


_entities = lru_cache(maxsize=64)(entities)  # of files that many changes start from


def _job(tree: Path, trial: Trial) -> dict[str, Any]:
    return {
        "files": differences(tree, trial.files),
        "tests": list(trial.tests),
        "first_failure": trial.first_failure,
        "survey": trial.survey,
    }


def differences(tree: Path, files: Mapping[str, bytes]) -> dict[str, tuple[int, int, str]]:
    """Return where each of ``files`` begins and ends to differ from the one in ``tree``, and what it has there."""
    return {path: _difference((tree / path).read_bytes(), content) for path, content in files.items()}


def _difference(before: bytes, after: bytes) -> tuple[int, int, str]:
    """Return where the lines of ``before`` begin and end to differ, as offsets, and what ``after`` has there."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    shortest = min(len(old), len(new))
    head = next((number for number in range(shortest) if old[number] != new[number]), shortest)
    most = shortest - head
    tail = next((number for number in range(most) if old[-1 - number] != new[-1 - number]), most)
    start, stop = len(b"".join(old[:head])), len(before) - len(b"".join(old[len(old) - tail :]))
    return start, stop, after[start : len(after) - (len(before) - stop)].decode("utf-8", "surrogateescape")


def _result(record: dict[str, Any] | None) -> TrialResult:
    if record is None:
        return TrialResult(cause="the run ended before this trial")
    others = {test: Outcome(**fields) for test, fields in record["outcomes"].items()}
    return TrialResult(frozenset(record["passed"]), others, record["cause"])
