"""The generator ``fd_exception_path``: error handling is taken out, and the statement says what has to be refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from .....models import GeneratorRef
from ....base import Candidate, HiddenTests, StatementContext, TestPolicy
from ....python.source import Edit, apply_edits
from ....python.tested_code import TestedCode, in_seed_order
from ....statements.behaviours import bullets
from ....statements.hidden_tests_text import closing_paragraphs
from ..cascade import DeadCode, dead_after
from ..removal.name_index import NameIndex
from ..removal.source_file import SourceFile
from .calls_of_tests import CallsOfTests, called_name
from .error_checks import ErrorCheck, always_raising, deleted_spans, error_checks, removal_edits, requirement

if TYPE_CHECKING:
    from .....environments.snapshots import Snapshot

_EXPECTING = {"raises", "assertRaises", "assertRaisesRegex", "assertRaisesRegexp", "assert_raises", "RaisesGroup"}
_LOOKS_AT_MESSAGE = re.compile(r"\bmatch=|Regex|\bstr\(|\.value\b|\.exception\b|\.args\b|\.message\b|\bmessage\b")


@dataclass(frozen=True)
class Knobs:
    """Which error handling is deleted, and what the workspace shows of the tests."""

    scope: Literal["function", "check"] = "function"
    """``function`` deletes all checks of one function that tests expect, ``check`` a single one."""
    kinds: Literal["all", "guard", "handler"] = "all"
    """``guard`` deletes checks (``if``) that raise, ``handler`` ``except`` branches that raise another exception."""
    tests: TestPolicy = "hidden"
    """Failing tests: ``hidden`` takes them out of the workspace, ``visible`` leaves them, ``half`` every second one."""
    keep_helpers: bool = False
    """Leave private helpers and imports that only the deleted code used, which makes the task easier."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may reach the deleted checks."""


@dataclass(frozen=True)
class ErrorStatement:
    """What the function has to refuse, and how."""

    module: str  # dotted name of the module
    path: str  # its file
    function: str  # ``name`` or ``Class.name``
    requirements: Sequence[str]  # one per check: the exception and its condition
    policy: TestPolicy  # which failing tests the workspace lacks

    def render(self, context: StatementContext) -> str:
        """Return the requirements, the behaviours that tests name, and the interface."""
        where = f"`{self.module}.{self.function}`"
        paragraphs = [
            f"# Report errors in {where}",
            f"In this code base, the {context.package} package, {where} (in `{self.path}`) lacks error handling: input "
            "that it should refuse gives a wrong result, or an exception that callers do not expect. Everything else "
            "works and has to keep working. Add what is missing.",
            "## What it has to do\n\n" + bullets(f"It {text}." for text in self.requirements),
        ]
        paragraphs += closing_paragraphs(context, self.policy, paragraphs)
        return "\n\n".join(paragraphs) + "\n"


class ExceptionPathDeletion:
    """Delete the checks of one function that raise, or its translation of errors, and ask for them back.

    Only checks that raise in a test that expects an exception are eligible; for these the statement gives exception
    and condition, and the message where a test looks at it.
    """

    name = "fd_exception_path"
    version = "2"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per function with such checks, or per check, in seed order."""
        code = TestedCode(snapshot)
        calls = CallsOfTests(code.tree)
        pool = in_seed_order(
            _groups(code, calls, knobs),
            seed,
            self.name,
            key=lambda group: (group.file.path, group.checks[0].raising.lineno),
        )
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        for group in pool:
            yield _propose(code, group, calls, reference, knobs)


@dataclass(frozen=True)
class _Group:
    """Checks that are deleted together."""

    file: SourceFile  # their file
    checks: tuple[ErrorCheck, ...]  # at least one, of one function
    tests: list[str]  # tests that reach one of them

    @property
    def function(self) -> str:
        return self.checks[0].function


def _expects(calls: CallsOfTests, test: str) -> bool:
    """Return whether a test calls ``raises``, ``assertRaises`` or the like."""
    return any(called_name(call) in _EXPECTING for call in calls.calls(test))


def _source(calls: CallsOfTests, test: str) -> str:
    node = calls.function(test)
    return ast.unparse(node) if node is not None else ""


def _groups(code: TestedCode, calls: CallsOfTests, knobs: Knobs) -> Iterator[_Group]:
    """Yield the checks that tests expect, as the knobs group them."""
    index = NameIndex.of(code.tree)
    for path in sorted(index.own):
        by_function: dict[str, list[tuple[ErrorCheck, list[str]]]] = {}
        lines = code.tests_of_lines(path)
        for check in error_checks(index.files[path]) if lines else ():
            tests = list(dict.fromkeys(test for line in check.lines for test in lines.get(line, [])))
            if knobs.kinds in ("all", check.kind) and any(_expects(calls, test) for test in tests):
                key = check.function if knobs.scope == "function" else f"{check.function}:{check.raising.lineno}"
                by_function.setdefault(key, []).append((check, tests))
        for entries in by_function.values():
            position = {test: number for number, test in enumerate(code.baseline.passed)}
            every = sorted({test for _, tests in entries for test in tests}, key=position.__getitem__)
            if code.decides(every, knobs.max_share):
                yield _Group(index.files[path], tuple(check for check, _ in entries), every)


def _propose(code: TestedCode, group: _Group, calls: CallsOfTests, reference: GeneratorRef, knobs: Knobs) -> Candidate:
    file, checks, tree = group.file, group.checks, code.tree
    edits: dict[str, list[Edit]] = {file.path: removal_edits(file, checks)}
    dead = DeadCode() if knobs.keep_helpers else dead_after(tree, {file.path: deleted_spans(file, checks)})
    for path, spans in dead.spans.items():
        edits.setdefault(path, []).extend((span, b"") for span in spans)
    reads_message = any(_LOOKS_AT_MESSAGE.search(_source(calls, test)) for test in group.tests)
    name = group.function if knobs.scope == "function" else f"{group.function}.{_number(file, checks[0])}"
    probe = apply_edits(file.source, always_raising(file, checks))
    originals = {path: tree.read(path) for path in edits}
    return Candidate(
        entity=f"{file.path}::{name}",
        generator=reference,
        exercise={path: apply_edits(tree.read(path), changes) for path, changes in edits.items()},
        hidden_tests=HiddenTests(group.tests, knobs.tests),
        statement=ErrorStatement(
            module=tree.dotted_name(file.path),
            path=file.path,
            function=group.function,
            requirements=[requirement(file, check, message=reads_message) for check in checks],
            policy=knobs.tests,
        ),
        subject=group.function,
        show_examples=knobs.tests != "visible",
        probes={"always": {**originals, file.path: probe}} if probe != file.source else {},
        features={"checks": len(checks), "handlers": sum(check.kind == "handler" for check in checks)},
    )


def _number(file: SourceFile, check: ErrorCheck) -> int:
    """Return the number of a check in its function, from 1."""
    twins = [item.raising.lineno for item in error_checks(file) if item.function == check.function]
    return twins.index(check.raising.lineno) + 1
