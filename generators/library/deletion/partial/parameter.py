"""The generator ``fd_parameter``: an optional parameter is taken out of a function with all that handles it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from .....errors import Rejected
from .....models import GeneratorRef, InterfaceItem
from ....base import Candidate, Files, HiddenTests, StatementContext, TestPolicy
from ....python.source import signature
from ....python.tested_code import TestedCode, in_seed_order
from ....statements.behaviours import bullets, quoted
from ....statements.hidden_tests_text import closing_paragraphs
from ..documentation import redact_docstring
from ..removal.name_index import NameIndex
from ..removal.source_file import SourceFile
from .calls_of_tests import CallsOfTests, called_name
from .parameters import Parameter, parameters, without_handling, without_parameter_itself
from .rewriting.line_edits import changed_lines, tidied

if TYPE_CHECKING:
    from .....environments.snapshots import Snapshot

MAX_CALLS = 5
MAX_CALL = 100


@dataclass(frozen=True)
class Knobs:
    """Which parameters are deleted, and what the workspace shows of the tests."""

    min_lines: Annotated[int, Field(ge=1)] = 2
    """Fewest lines of code that change besides the docstring; 1 takes parameters that are only passed on, too."""
    documented: bool = True
    """Only parameters that a docstring describes."""
    tests: TestPolicy = "hidden"
    """Failing tests: ``hidden`` takes them out of the workspace, ``visible`` leaves them, ``half`` every second one."""
    keep_helpers: bool = False
    """Leave private helpers and imports that only the deleted code used, which makes the task easier."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may pass the parameter."""


@dataclass(frozen=True)
class ParameterStatement:
    """What a function has to accept again."""

    function: str  # dotted name
    path: str  # its file
    signature: str  # with the parameter
    parameter: str  # its name
    default: str  # as the source writes it
    documentation: Sequence[str]  # what the docstring said about it
    raises: Sequence[str]  # exceptions that the deleted code raised
    calls: Sequence[str]  # calls of tests that pass it
    policy: TestPolicy  # which failing tests the workspace lacks

    def render(self, context: StatementContext) -> str:
        """Return name, default and documentation of the parameter, calls, behaviours and the interface."""
        where = f"`{self.function}`"
        paragraphs = [
            f"# Add the parameter `{self.parameter}` to {where}",
            f"In this code base, the {context.package} package, {where} (in `{self.path}`) does not know the parameter "
            f"`{self.parameter}`: a call that passes it raises `TypeError`. Everything else works. Add it, with the "
            f"default `{self.default}`; a call without it behaves as it does now. The signature becomes:",
            f"```python\n{self.signature}\n```",
        ]
        if self.documentation:
            paragraphs.append("## Documentation\n\n" + "\n>\n".join(quoted(part) for part in self.documentation))
        if self.raises:
            paragraphs.append(f"Values that it refuses raise {' or '.join(f'`{name}`' for name in self.raises)}.")
        if self.calls:
            paragraphs.append("## Calls\n\nTests pass it in calls such as:\n\n" + bullets(f"`{x}`" for x in self.calls))
        paragraphs += closing_paragraphs(context, self.policy, paragraphs)
        return "\n\n".join(paragraphs) + "\n"


class ParameterDeletion:
    """Delete one optional parameter of a function with the code that handles it, and ask for it back.

    The function then does what it did for the default: reads are replaced by the default, and branches that cannot
    run any more are deleted. Parameters are eligible where this is exact and no other code of the package passes them.
    """

    name = "fd_parameter"
    version = "2"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per parameter that tests pass by its name, in seed order."""
        code = TestedCode(snapshot)
        calls = CallsOfTests(code.tree)
        eligible = list(_eligible(code, calls, knobs))
        pool = in_seed_order(eligible, seed, self.name, key=lambda item: (item[0].path, item[1].function, item[1].name))
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        for file, parameter, tests in pool:
            try:
                candidate = _propose(code, calls, file, parameter, tests, reference, knobs)
            except Rejected:  # the parameter cannot be taken out exactly, so it is not eligible
                continue
            if candidate is not None:
                yield candidate


def _eligible(code: TestedCode, calls: CallsOfTests, knobs: Knobs) -> Iterator[tuple[SourceFile, Parameter, list[str]]]:
    """Yield parameters that tests pass and nothing else of the package does."""
    index = NameIndex.of(code.tree)
    used = _UsesOfPackage(index)
    for path in sorted(index.own):
        for item in parameters(index.files[path]):
            tests = [
                test
                for test in code.tests_of(path, f"{path}::{item.function}".__eq__)
                if calls.with_keyword(test, item.called, item.name)
            ]
            if code.decides(tests, knobs.max_share) and not used.passes(item):
                yield index.files[path], item, tests


class _UsesOfPackage:
    """How the calls of a package and its tests pass arguments, by the name that is called."""

    def __init__(self, index: NameIndex) -> None:
        self._keywords: set[tuple[str, str]] = set()
        self._positional: dict[str, int] = {}
        for path, file in index.files.items():
            for node in ast.walk(file.tree):
                if isinstance(node, ast.Call):
                    self._add(node, path in index.own)

    def _add(self, call: ast.Call, is_own: bool) -> None:
        name = called_name(call)
        passed = [*call.args]
        if name == "partial" and call.args:
            name, passed = ast.unparse(call.args[0]).rsplit(".", 1)[-1], passed[1:]
        if name == "__init__":
            name = ""  # of a base class, which any class may be
        if is_own:
            self._keywords |= {(name, item.arg) for item in call.keywords if item.arg}
        starred = any(isinstance(item, ast.Starred) for item in passed)
        self._positional[name] = max(self._positional.get(name, 0), 99 if starred and is_own else len(passed))

    def passes(self, parameter: Parameter) -> bool:
        """Return whether a call of the package passes the parameter, or any call fills later places by position."""
        names = (parameter.called, "") if parameter.function.endswith("__init__") else (parameter.called,)
        if any((name, parameter.name) in self._keywords for name in names):
            return True
        return parameter.position is not None and any(
            self._positional.get(name, 0) > parameter.position for name in names
        )


def _propose(
    code: TestedCode,
    calls: CallsOfTests,
    file: SourceFile,
    parameter: Parameter,
    tests: list[str],
    reference: GeneratorRef,
    knobs: Knobs,
) -> Candidate | None:
    """Return the candidate, or None when too little code handles the parameter. Raises Rejected when it is inexact."""
    ignoring = without_handling(file, parameter)
    after, documentation = without_parameter_itself(file.path, ignoring, parameter)
    documentation = [part for part in map(redact_docstring, documentation) if part.strip()]
    deleted = b"\n".join(file.source[start:end] for start, end in changed_lines(file.source, ignoring))
    lines = deleted.count(b"\n") + 1  # the signature changes too
    if lines < knobs.min_lines or ignoring == file.source or (knobs.documented and not documentation):
        return None
    exercise = tidied(code.tree, file.path, after, keep_helpers=knobs.keep_helpers)
    dotted = f"{file.dotted}.{parameter.function}"
    text = _signature(code, file, parameter)
    others: Files = {path: code.tree.read(path) for path in exercise}
    return Candidate(
        entity=f"{file.path}::{parameter.function}.{parameter.name}",
        generator=reference,
        exercise=exercise,
        hidden_tests=HiddenTests(tests, knobs.tests),
        statement=ParameterStatement(
            function=dotted,
            path=file.path,
            signature=text,
            parameter=parameter.name,
            default=parameter.default,
            documentation=documentation,
            raises=sorted(set(re.findall(r"\braise ([A-Z]\w*)", deleted.decode("utf-8", "replace")))),
            calls=_examples(calls, tests, parameter),
            policy=knobs.tests,
        ),
        subject=parameter.function,
        documented=bool(documentation),
        interface=[
            InterfaceItem(name=dotted, kind="method" if "." in parameter.function else "function", signature=text)
        ],
        probes={"ignored": {**others, file.path: ignoring}},
        features={"lines_changed": lines, "tests_touching": len(tests), "docstring": bool(documentation)},
    )


def _signature(code: TestedCode, file: SourceFile, parameter: Parameter) -> str:
    module = next(item for item in code.tree.modules() if item.path == file.path)
    owner_name, _, short = parameter.function.rpartition(".")
    owner = next((item for item in module.definitions() if item.name == owner_name), None)
    body = owner.body if owner else None
    return signature(module, next(item for item in module.definitions(body) if item.name == short))


def _examples(calls: CallsOfTests, tests: Sequence[str], parameter: Parameter) -> list[str]:
    """Return calls of tests that pass the parameter, each form once; long ones are left out."""
    texts = [ast.unparse(call) for test in tests for call in calls.with_keyword(test, parameter.called, parameter.name)]
    return [text for text in dict.fromkeys(texts) if len(text) <= MAX_CALL and "`" not in text][:MAX_CALLS]
