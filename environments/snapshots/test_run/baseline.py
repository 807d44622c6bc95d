"""Which tests pass every time, and which function each of them runs."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ....errors import CollectionFailed, NonePassing, NoTests, SuiteTimeout, WrongModule
from ....models import PytestVerifier, Record
from ...sandbox import WORKSPACE, Sandbox
from ..errors import last_lines
from .test_runner import TestRun, run_tests

# (order, hash seed) of the measured runs: two orders, two seeds.
RUNS: tuple[tuple[Literal["given", "reversed"], int], ...] = (("given", 0), ("reversed", 0), ("given", 1))
_UNSTABLE_ID = re.compile(r"0x[0-9a-fA-F]{8,}|/tmp/|/var/folders/|\bat 0x|pytest-of-|pytest-\d+/")


class Baseline(Record):
    """What the pristine tree does.

    ``passed`` ids in suite order; ``dropped`` ids with the reason why no task may expect them. ``tests_of`` maps
    ``rel/path.py::Qual.name`` to the passing tests that run its body; ``at_import`` lists functions that also run
    outside tests (import, collection). ``lines`` maps a file to test id to covered lines as text (``3-5,9``).
    ``notes`` says what detection gave up; ``seconds`` is the slowest measured run's wall time, for time limits alone.
    """

    passed: list[str]
    dropped: dict[str, str] = Field(default_factory=dict)
    tests_of: dict[str, list[str]] = Field(default_factory=dict)
    at_import: list[str] = Field(default_factory=list)
    lines: dict[str, dict[str, str]] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    seconds: float = 0.0

    def covered(self, test: str) -> dict[str, list[int]]:
        """The source lines that ``test`` runs, by file."""
        return {path: unpack_lines(by_test[test]) for path, by_test in self.lines.items() if test in by_test}

    def dump(self) -> str:
        """Compact JSON: a test is its position in one list."""
        index = {test: number for number, test in enumerate(self.passed)}
        table: dict[str, Any] = self.model_dump(exclude={"tests_of", "lines"})
        table["tests_of"] = {name: [index[test] for test in tests] for name, tests in self.tests_of.items()}
        table["lines"] = {path: {index[t]: text for t, text in tests.items()} for path, tests in self.lines.items()}
        return json.dumps(table, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> Baseline:
        table = json.loads(text)
        passed = table["passed"]
        table["tests_of"] = {name: [passed[number] for number in found] for name, found in table["tests_of"].items()}
        table["lines"] = {
            path: {passed[int(number)]: lines for number, lines in found.items()}
            for path, found in table["lines"].items()
        }
        return cls.model_construct(**table)  # written by dump: validating tens of thousands of strings again is slow


def pack_lines(lines: Iterable[int]) -> str:
    """``1,2,3,7`` -> ``1-3,7``"""
    parts: list[list[int]] = []
    for line in sorted(set(lines)):
        if parts and line == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], line]
        else:
            parts.append([line])
    return ",".join("-".join(map(str, part)) for part in parts)


def unpack_lines(text: str) -> list[int]:
    """The inverse of pack_lines."""
    found: list[int] = []
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


async def measure(
    sandbox: Sandbox,
    verifier: PytestVerifier,
    packages: Mapping[str, str],
    tree: Path,
    progress: Callable[[str], None],
    first: TestRun | None = None,
) -> Baseline:
    """Run the suite three times and once traced, each in a fresh sandbox state.

    ``first`` is an earlier run in given order with hash seed 0. Raises SuiteTimeout, CollectionFailed, NoTests,
    NonePassing, WrongModule.
    """
    runs: list[TestRun] = [first] if first else []
    for number, (order, seed) in enumerate(RUNS[len(runs) :], start=len(runs) + 1):
        progress(f"baseline: run {number} of {len(RUNS)}")
        await sandbox.reset()
        runs.append(await run_tests(sandbox, verifier, order=order, hash_seed=seed))
        check_run(runs[-1], verifier.timeout_s)
    check_modules(runs[0], packages)
    passed, dropped = compare(runs)
    if not passed:
        raise NonePassing(
            f"none of {len(runs[0].order)} tests passes every time: {why_none(runs[0], dropped)}; give them what they "
            f"need (--setup-cmd; requirements or env in --recipe FILE), or name another source"
        )
    progress("baseline: which test runs which function")
    await sandbox.reset()
    traced = await run_tests(
        sandbox, verifier, coverage=trace_roots(packages.values()), timeout_s=verifier.timeout_s * 3
    )
    check_run(traced, verifier.timeout_s * 3)
    contexts = {test: traced.contexts.get(test, {}) for test in passed}
    sources = list(source_files(tree, packages.values()))
    tests_of, at_import = impact(tree, sources, contexts, traced.contexts.get("", {}))
    wanted = set(sources)
    lines: dict[str, dict[str, str]] = {}
    for test, files in contexts.items():
        for path, numbers in files.items():
            if path in wanted:
                lines.setdefault(path, {})[test] = pack_lines(numbers)
    notes = [f"{path} is not collected: {last_lines(text, 1)}" for path, text in sorted(runs[0].collect_errors.items())]
    return Baseline(
        passed=passed,
        dropped=dropped,
        tests_of=tests_of,
        at_import=at_import,
        lines=lines,
        notes=notes,
        seconds=round(max(run.seconds for run in runs), 3),
    )


def check_run(run: TestRun, timeout_s: float) -> None:
    """Raises when a run did not end by itself: SuiteTimeout names the test that was running."""
    if run.timed_out:
        running = run.cause.partition(" during ")[2]
        culprit = f"while {running} ran: name it in deselect" if running else "before a test started: name test_args"
        raise SuiteTimeout(
            f"the suite has no end within {timeout_s:.0f} s; it stopped {culprit}, or raise timeout_s (--recipe FILE)"
        )
    if not run.complete and not run.outcomes:
        raise CollectionFailed(f"pytest collected nothing: {run.cause}")
    if not run.complete:
        raise CollectionFailed(
            f"the suite does not end by itself: {run.cause}; name the test in deselect (--recipe FILE), or repair it"
        )
    if not run.order and run.collect_errors:
        path, text = next(iter(run.collect_errors.items()))
        raise CollectionFailed(f"no test file can be collected; {path}: {last_lines(text, 3)}")
    if not run.order:
        raise NoTests("pytest finds no test in the detected places: name them in test_args (--recipe FILE)")


def check_modules(run: TestRun, packages: Mapping[str, str]) -> None:
    """Raises WrongModule when a package was imported from anywhere but the packages' places in the tree."""
    roots = tuple(f"{WORKSPACE}/{root}" for root in packages.values())
    for name, path in run.modules.items():
        if name in packages and path and not path.startswith(roots):
            raise WrongModule(f"the tests import {name} from {path}, not from {packages[name]}: remove that copy")


def compare(runs: Sequence[TestRun]) -> tuple[list[str], dict[str, str]]:
    """(ids that pass in every run, in the first run's order; every other id with the reason)."""
    passed: list[str] = []
    dropped: dict[str, str] = {}
    repeated = {test for run in runs for test in run.repeated}
    for test in dict.fromkeys([*(test for run in runs for test in run.order), *sorted(repeated)]):
        told = [run.outcomes[test].outcome if test in run.outcomes else "missing" for run in runs]
        if test in repeated:
            dropped[test] = "its id is reported more than once"
        elif _UNSTABLE_ID.search(test):
            dropped[test] = "its id holds an address or a temporary path"
        elif len(set(told)) > 1:
            dropped[test] = f"disagrees: {', '.join(told)}"
        elif told[0] != "passed":
            dropped[test] = f"{told[0]} every time"
        else:
            passed.append(test)
    # Where some cases of a test come and go, the others were lucky.
    moving = {test.partition("[")[0] for test, reason in dropped.items() if "missing" in reason and "[" in test}
    lucky = {test for test in passed if "[" in test and test.partition("[")[0] in moving}
    dropped |= {test: "its test's parameters change between runs" for test in passed if test in lucky}
    return [test for test in passed if test not in lucky], dropped


def why_none(run: TestRun, dropped: Mapping[str, str]) -> str:
    """The commonest cause, in one line."""
    for test, outcome in run.outcomes.items():
        if outcome.outcome in ("failed", "error"):
            return f"{test}: {outcome.exception} {outcome.message}"[:300].strip()
    if run.collect_errors:
        return last_lines(next(iter(run.collect_errors.values())), 2)
    test, reason = next(iter(dropped.items()), ("", "nothing ran"))
    return f"{test}: {reason}" if test else last_lines(run.output, 3)


def trace_roots(roots: Iterable[str]) -> list[str]:
    """Folders to trace: a package's own, or the one that holds a single module."""
    found = {root if not root.endswith(".py") else root.rpartition("/")[0] or "." for root in roots}
    return sorted(found)


def source_files(tree: Path, roots: Iterable[str]) -> Iterator[str]:
    """The packages' Python files, tree-relative, tests inside a package included."""
    for root in sorted(set(roots)):
        path = tree / root
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        yield from (file.relative_to(tree).as_posix() for file in files)


@dataclass(frozen=True)
class Body:
    """The lines of one function's body, docstring aside; ``on_def``: it shares the line of its ``def``."""

    lines: range
    on_def: bool


def entities(source: bytes) -> dict[str, list[Body]]:
    """Qualified name of each function and method -> its bodies.

    The line of ``def`` runs at import and says nothing. A name defined more than once (overloads, property setters,
    branches) has a body for each. Functions inside functions belong to the outer one.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    found: dict[str, list[Body]] = {}

    def visit(nodes: Iterable[ast.AST], prefix: str) -> None:
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.setdefault(prefix + node.name, []).append(_body(node))
            elif isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.ExceptHandler):
                visit(ast.iter_child_nodes(node), prefix)

    visit(module.body, "")
    return found


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Body:
    body = node.body
    told = body[0].value if isinstance(body[0], ast.Expr) else None
    has_docstring = isinstance(told, ast.Constant) and isinstance(told.value, str)
    first = body[1] if has_docstring and len(body) > 1 else body[0]
    return Body(range(first.lineno, (node.end_lineno or first.lineno) + 1), first.lineno == node.lineno)


def impact(
    tree: Path,
    paths: Sequence[str],
    contexts: Mapping[str, Mapping[str, Sequence[int]]],
    at_import: Mapping[str, Sequence[int]],
) -> tuple[dict[str, list[str]], list[str]]:
    """(entity -> tests that run its body, in the order of ``contexts``; entities that run outside tests too)."""
    tests_of: dict[str, list[str]] = {}
    outside: list[str] = []
    order = {test: number for number, test in enumerate(contexts)}
    for path in paths:
        by_line: dict[int, set[str]] = {}
        for test, files in contexts.items():
            for line in files.get(path, ()):
                by_line.setdefault(line, set()).add(test)
        loaded = set(at_import.get(path, ()))
        for name, bodies in entities((tree / path).read_bytes()).items():
            lines = {line for body in bodies for line in body.lines}
            if tests := set().union(*(by_line.get(line, ()) for line in lines)):
                tests_of[f"{path}::{name}"] = sorted(tests, key=order.__getitem__)
            if any(line in loaded for body in bodies if not body.on_def for line in body.lines):
                outside.append(f"{path}::{name}")
    return tests_of, outside
