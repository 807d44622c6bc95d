"""Baseline of a Snapshot: the tests that pass every time, and the functions that each of them runs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from ....errors import CollectionFailed, NonePassing, NoTests, SnapshotError, SuiteTimeout, WrongModule
from ....models import PytestVerifier, Record
from ...sandbox import WORKSPACE, Sandbox
from ..log_text import last_lines
from .impact import impact, source_files, trace_roots
from .test_runner import Order, TestRun, run_tests

_UNSTABLE_ID = re.compile(r"0x[0-9a-fA-F]{8,}|/tmp/|/var/folders/|\bat 0x|pytest-of-|pytest-\d+/")


class Baseline(Record):
    """Behaviour of the pristine tree under its own tests."""

    passed: list[str]
    """Ids that pass every time, in suite order."""
    dropped: dict[str, str] = Field(default_factory=dict)
    """Every other id, with the reason why no task may expect it."""
    tests_of: dict[str, list[str]] = Field(default_factory=dict)
    """``rel/path.py::Qual.name`` -> the passing tests that run its body."""
    at_import: list[str] = Field(default_factory=list)
    """Functions that also run outside tests, at import or collection."""
    lines: dict[str, dict[str, str]] = Field(default_factory=dict)
    """File -> test id -> covered lines as text (``3-5,9``)."""
    notes: list[str] = Field(default_factory=list)
    """Requirements, options, tests and files that detection gave up."""
    seconds: float = 0.0
    """CPU time of the slowest measured run, for time limits alone; part of no digest."""

    def covered(self, test: str) -> dict[str, list[int]]:
        """Return the source lines that ``test`` runs, by file."""
        return {path: unpack_lines(by_test[test]) for path, by_test in self.lines.items() if test in by_test}

    def dump(self) -> str:
        """Return compact JSON, in which a test is its position in one list."""
        index = {test: number for number, test in enumerate(self.passed)}
        table: dict[str, Any] = self.model_dump(exclude={"tests_of", "lines"})
        table["tests_of"] = {name: [index[test] for test in tests] for name, tests in self.tests_of.items()}
        table["lines"] = {path: {index[t]: text for t, text in tests.items()} for path, tests in self.lines.items()}
        return json.dumps(table, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> Baseline:
        """Return the baseline that ``dump`` wrote. Raises ValueError or LookupError for anything else."""
        table = json.loads(text)
        passed = table["passed"]
        table["tests_of"] = {name: [passed[number] for number in tests] for name, tests in table["tests_of"].items()}
        table["lines"] = {
            path: {passed[int(number)]: lines for number, lines in tests.items()}
            for path, tests in table["lines"].items()
        }
        return cls.model_construct(**table)  # written by dump: validating tens of thousands of strings again is slow


def pack_lines(lines: Iterable[int]) -> str:
    """Return line numbers as text: ``1,2,3,7`` becomes ``1-3,7``."""
    parts: list[list[int]] = []
    for line in sorted(set(lines)):
        if parts and line == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], line]
        else:
            parts.append([line])
    return ",".join("-".join(map(str, part)) for part in parts)


def unpack_lines(text: str) -> list[int]:
    """Return the line numbers of a text that ``pack_lines`` wrote."""
    numbers: list[int] = []
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


async def measure(
    open_sandbox: Callable[[], AbstractAsyncContextManager[Sandbox]],
    verifier: PytestVerifier,
    packages: Mapping[str, str],
    tree: Path,
    progress: Callable[[str], None],
    first: TestRun | None = None,
) -> Baseline:
    """Run the suite three times, each in a fresh sandbox state: in two orders, with two hash seeds.

    ``first`` is an earlier run in given order with hash seed 0. The third run is traced, which gives the impact of each
    test; where tests fail only in that run, a run without tracing takes its place in the comparison. The second and the
    third run share nothing where sandboxes have networks of their own, and then run at the same time.

    Raises SuiteTimeout, CollectionFailed, NoTests, NonePassing, WrongModule, and SnapshotError for a suite that
    changes pytest.
    """
    roots = trace_roots(packages.values())
    async with open_sandbox() as sandbox, open_sandbox() as other:
        if first is None:
            first = await _run(sandbox, verifier, progress, "run 1 of 3")
        jobs = (
            partial(_run, sandbox, verifier, progress, "run 2 of 3", order="reversed"),
            partial(_run, other, verifier, progress, "run 3 of 3, traced", hash_seed=1, coverage=roots),
        )
        if sandbox.report.isolation in ("namespaces", "container"):
            finished = await asyncio.gather(*(job() for job in jobs), return_exceptions=True)
            if error := next((item for item in finished if isinstance(item, BaseException)), None):
                raise error
            reversed_run, traced = (item for item in finished if isinstance(item, TestRun))
        else:
            reversed_run, traced = await jobs[0](), await jobs[1]()
        check_modules(first, packages)
        runs = [first, reversed_run, traced]
        if set(first.passed) & set(reversed_run.passed) - set(traced.passed):
            runs[2] = await _run(sandbox, verifier, progress, "run 3 of 3 again, not traced", hash_seed=1)
    passed, dropped = compare(runs)
    if not passed:
        raise NonePassing(
            f"none of {len(first.order)} tests passes every time ({failure_reason(first, dropped)}); provide what they "
            f"need (--setup-cmd; requirements or env in --recipe FILE), or name another source"
        )
    contexts = {test: traced.contexts.get(test, {}) for test in passed}
    sources = list(source_files(tree, packages.values()))
    lines: dict[str, dict[str, str]] = {path: {} for path in sources}
    for test, files in contexts.items():
        for path in files.keys() & lines.keys():
            lines[path][test] = pack_lines(files[path])
    tests_of, at_import = impact(tree, sources, contexts, traced.contexts.get("", {}))
    return Baseline(
        passed=passed,
        dropped=dropped,
        tests_of=tests_of,
        at_import=at_import,
        lines={path: by_test for path, by_test in lines.items() if by_test},
        notes=[
            f"{path} is not collected: {last_lines(text, 1)}" for path, text in sorted(first.collect_errors.items())
        ],
        seconds=round(max(run.cpu_seconds for run in runs if run is not traced), 3),
    )


async def _run(
    sandbox: Sandbox,
    verifier: PytestVerifier,
    progress: Callable[[str], None],
    name: str,
    *,
    order: Order = "given",
    hash_seed: int = 0,
    coverage: Sequence[str] = (),
) -> TestRun:
    """Run the suite in a fresh sandbox state; a traced run may take three times as long. Raises as ``check_run``."""
    progress(f"baseline: {name}")
    await sandbox.reset()
    limit = verifier.timeout_s * (3 if coverage else 1)
    run = await run_tests(sandbox, verifier, order=order, hash_seed=hash_seed, coverage=coverage, timeout_s=limit)
    check_run(run, limit)
    return run


def check_run(run: TestRun, timeout_s: float) -> None:
    """Raise when a run of the pristine tree cannot be part of a baseline.

    SuiteTimeout and CollectionFailed name the test that was running, NoTests stands for an empty suite, SnapshotError
    for a suite that changes pytest, because a forgery could not be distinguished from it.
    """
    if run.timed_out:
        where = f"while {run.running} ran; name it in deselect" if run.running else "before a test; name test_args"
        raise SuiteTimeout(
            f"the suite did not end within {timeout_s:.0f} s of CPU time, or was idle for as long; it was stopped "
            f"{where}, or raise timeout_s (--recipe FILE)"
        )
    if not run.complete and not run.outcomes:
        raise CollectionFailed(
            f"pytest collected nothing ({run.cause}); repair the configuration, or name test_args (--recipe FILE)"
        )
    if not run.complete:
        raise CollectionFailed(
            f"the suite does not end by itself ({run.cause}); name the test in deselect (--recipe FILE), or repair it"
        )
    if not run.order and run.collect_errors:
        path, text = next(iter(run.collect_errors.items()))
        raise CollectionFailed(
            f"no test file can be collected ({path}: {last_lines(text, 3)}); add what is missing to requirements "
            f"(--recipe FILE)"
        )
    if not run.order:
        raise NoTests("pytest finds no test in the detected places; name them in test_args (--recipe FILE)")
    if run.violations:
        raise SnapshotError(
            f"the unmodified suite changes pytest itself ({run.violations[0]}), so no solution could be scored; name "
            f"that test in deselect (--recipe FILE), or choose another source"
        )


def check_modules(run: TestRun, packages: Mapping[str, str]) -> None:
    """Raise WrongModule when a package was imported from anywhere but its place in the tree."""
    roots = tuple(f"{WORKSPACE}/{root}" for root in packages.values())
    for name, path in run.modules.items():
        if name in packages and path and not path.startswith(roots):
            raise WrongModule(f"the tests import {name} from {path}, not from {packages[name]}; remove that copy")


def compare(runs: Sequence[TestRun]) -> tuple[list[str], dict[str, str]]:
    """Return the ids that pass in every run, in the first run's order, and every other id with the reason."""
    passed: list[str] = []
    dropped: dict[str, str] = {}
    repeated = {test for run in runs for test in run.repeated}
    for test in dict.fromkeys([*(test for run in runs for test in run.order), *sorted(repeated)]):
        outcomes = [run.outcomes[test].outcome if test in run.outcomes else "missing" for run in runs]
        if test in repeated:
            dropped[test] = "its id is reported more than once"
        elif _UNSTABLE_ID.search(test):
            dropped[test] = "its id holds an address or a temporary path"
        elif len(set(outcomes)) > 1:
            dropped[test] = f"disagrees: {', '.join(outcomes)}"
        elif outcomes[0] != "passed":
            dropped[test] = f"{outcomes[0]} every time"
        else:
            passed.append(test)
    # Where some cases of a parametrised test are missing from some runs, the other cases were present by chance.
    changing = {test.partition("[")[0] for test, reason in dropped.items() if "missing" in reason and "[" in test}
    by_chance = {test for test in passed if "[" in test and test.partition("[")[0] in changing}
    dropped |= {test: "its test's parameters change between runs" for test in passed if test in by_chance}
    return [test for test in passed if test not in by_chance], dropped


def failure_reason(run: TestRun, dropped: Mapping[str, str]) -> str:
    """Return the first cause of failure, on one line."""
    for test, outcome in run.outcomes.items():
        if outcome.outcome in ("failed", "error"):
            return f"{test}: {outcome.exception} {outcome.message}"[:300].strip()
    if run.collect_errors:
        return last_lines(next(iter(run.collect_errors.values())), 2)
    test, reason = next(iter(dropped.items()), ("", "nothing ran"))
    return f"{test}: {reason}" if test else last_lines(run.output, 3)
