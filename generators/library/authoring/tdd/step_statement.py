"""The statement of a step: the feature, its next test, and the definitions that the step adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ....base import StatementContext
from ....python.source import Definition, Module, docstring, signature
from ....statements.behaviours import behaviour_lines, bullets, interface_lines, quoted
from ....statements.reproduction import code
from ...deletion.bodies import decorators
from ...deletion.documentation import redact_docstring
from .given_test import GivenTest
from .schedule import Feature

MAX_TITLE, MAX_TITLE_NAMES = 80, 3
"""Most characters of an error, and most names, in a title."""
MAX_TEST_LINES = 60
"""Most lines of a test that a statement quotes."""


@dataclass(frozen=True)
class Missing:
    """A public method that the step has to add."""

    name: str  # ``Class.name``
    signature: str  # with its decorators
    docstring: str  # empty when it has none


@dataclass(frozen=True)
class StepStatement:
    """The next test of a feature, and what else the step is graded by."""

    feature: str  # dotted name of the function or class
    kind: Literal["function", "class"]  # what it is
    path: str  # its file
    test: str  # id of the next test, without parameters
    shown_test: GivenTest  # what the workspace shows of it
    missing: Sequence[Missing]  # public methods that the step adds

    def render(self, context: StatementContext) -> str:
        """Return the feature, the test, what is held back, the methods to add, and the interface."""
        where = f"`{self.feature}`"
        paragraphs = [
            f"# {self._title(context)}",
            f"In this code base, the {context.package} package, the {self.kind} {where} (in `{self.path}`) is "
            f"developed test by test. It has what its first tests need, and no more. The next test is in the "
            f"workspace and fails: `{self.test}`. Extend the code so that it passes, and break no test that passes "
            "now.",
        ]
        lines = self.shown_test.text.splitlines()
        if len(lines) <= MAX_TEST_LINES:
            paragraphs.append("```python\n" + "\n".join(lines) + "\n```")
        paragraphs.append(self._grading(context))
        if self.missing:
            paragraphs.append("## Names that the tests use\n\nThe step adds these definitions:")
            for item in self.missing:
                text = [f"`{item.name}`:\n\n```python\n{item.signature}\n```"]
                paragraphs += text + ([quoted(item.docstring)] if item.docstring else [])
        names = interface_lines(context.interface)
        if names:
            paragraphs.append("## Interface\n\nThe tests rely on:\n\n" + "\n".join(names))
        return "\n\n".join(paragraphs) + "\n"

    def _title(self, context: StatementContext) -> str:
        """Return what the step adds, or else how its test fails; the name of a test may be about something else."""
        if 0 < len(self.missing) <= MAX_TITLE_NAMES:
            names = [f"`{item.name}`" for item in self.missing]
            return f"Add {', '.join(names[:-1])}{' and ' if names[1:] else ''}{names[-1]}"
        short = self.feature.rpartition(".")[2]
        texts = [context.messages.get(test, "") for test in context.failing if test.partition("[")[0] == self.test]
        for text in texts:
            if text and not text.startswith(("Assertion", "Failed")) and len(text) <= MAX_TITLE and "\n" not in text:
                return f"`{short}` fails with {code(text)}"
        return f"The next step of `{short}`"

    def _grading(self, context: StatementContext) -> str:
        """Return what is graded besides the given test."""
        others = behaviour_lines(test for test in context.failing if test.partition("[")[0] != self.test)
        text = "All tests of the workspace are graded"
        held = [
            f"{count} more {name}{'' if count == 1 else 's'}"
            for count, name in ((self.shown_test.held_cases, "case"), (self.shown_test.held_assertions, "assertion"))
            if count
        ]
        if held:
            text += f", with {held[0]} of the same kind in this test, so write the behaviour and not its examples"
        if not others:
            return f"{text}."
        lead = "Hidden tests run the same code" if len(others) > 1 else "A hidden test runs the same code"
        return f"{text}. {lead}:\n\n{bullets(others)}"


def missing_methods(feature: Feature, before: bytes, after: bytes) -> list[Missing]:
    """Return the public methods that only the solution has."""
    if feature.kind == "function":
        return []
    present = {item.name for item in _methods(Module(feature.file.path, before), feature.name)}
    module = Module(feature.file.path, after)
    missing = [item for item in _methods(module, feature.name) if item.name not in present]
    return [
        Missing(
            name=f"{feature.name}.{item.name}",
            signature="\n".join([*(f"@{mark}" for mark in decorators(module, item)), signature(module, item)]),
            docstring=redact_docstring(docstring(module, item)),
        )
        for item in missing
        if not item.name.startswith("_") or item.name.endswith("__")
    ]


def _methods(module: Module, name: str) -> list[Definition]:
    """Return the methods of a class of the module."""
    owner = next((item for item in module.definitions() if item.name == name), None)
    members = module.definitions(owner.body) if owner is not None else []
    return [item for item in members if item.kind == "function"]
