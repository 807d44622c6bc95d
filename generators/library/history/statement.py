"""The statement of a task from history: what the commit said, what the tests check, and how they fail."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....errors import Rejected
from ....models import InterfaceItem
from ...base import StatementContext, TestPolicy
from ...python.source import words
from ...statements.behaviours import behaviour_lines, bullets, interface_lines, quoted
from .message import Description
from .public_names import PublicName
from .usefulness import telling_words

MAX_FAILURES = 8
MAX_CASE = 60
MAX_CASES = 6
MAX_EXAMPLE = 40
"""Most lines of a test that a statement quotes."""
MIN_PROSE = 12
"""Telling words besides the title without which a statement quotes a test."""
MAX_QUOTED_NAMES = 8
_UNTELLING = ("NameError", "ImportError", "ModuleNotFoundError", "SyntaxError")
_HEADINGS = {
    "hidden": "Hidden tests check",
    "visible": "These tests of the code base fail now",
    "half": "These tests fail now; half of them are in the workspace, all of them are graded",
}


@dataclass(frozen=True)
class HistoryStatement:
    """Everything that is known about a change before its tests are run."""

    description: Description  # from the message
    changelog: Sequence[str]  # entries that the change added to a changelog
    names: Sequence[PublicName]  # public definitions that are missing or different
    policy: TestPolicy  # which failing tests the workspace lacks
    sources: Mapping[str, str]  # source of each test that came with the change, by id; empty when it cannot be found

    def render(self, context: StatementContext) -> str:
        """Return description, changelog, definitions, behaviours, failures and interface.

        Where there is little prose, one of the failing tests is quoted; without a short one, Rejected is raised.
        """
        paragraphs = [
            f"# {self.description.title}",
            f"This code base, the package {context.package}, lacks the change that is described here. Make the change "
            "in the package; everything else works and has to keep working.",
        ]
        if self.description.body:
            paragraphs.append(f"## Description\n\n{_below_headings(self.description.body)}")
        if self.changelog:
            paragraphs.append(f"## Changelog\n\n{quoted(chr(10).join(self.changelog))}")
        paragraphs += self._definitions()
        behaviours = [_without_issue(line) for line in behaviour_lines(context.failing)]
        if any(behaviours):
            paragraphs.append(f"## Behaviour\n\n{_HEADINGS[self.policy]}:\n\n{bullets(filter(None, behaviours))}")
        failures = self._failures(context)
        if failures:
            paragraphs.append(f"## How they fail now\n\n{bullets(failures)}")
        if not self._explains():
            paragraphs.append(f"## Example\n\nThis test has to pass:\n\n```python\n{self._example(context)}\n```")
        names = interface_lines(self._interface(context))
        if names:
            paragraphs.append("## Interface\n\nThe failing tests use:\n\n" + "\n".join(names))
        return "\n\n".join(paragraphs) + "\n"

    def _explains(self) -> bool:
        """Return whether there is enough prose besides the title."""
        documents = (item.docstring for item in self.names)
        return len(telling_words("\n".join([self.description.body, *self.changelog, *documents]))) >= MIN_PROSE

    def _example(self, context: StatementContext) -> str:
        """Return the longest of the change's failing tests that is short enough. Raises Rejected without one."""
        texts = [self.sources.get(test, "") for test in context.failing]
        short = [text for text in texts if text and len(text.splitlines()) <= MAX_EXAMPLE]
        if not short:
            detail = f"nothing but the title says what is wanted, and no test is short: {self.description.title!r}"
            raise Rejected("history_under_specified", detail)
        return _without_numbers(max(short, key=len))

    def _interface(self, context: StatementContext) -> list[InterfaceItem]:
        """Return the names that the failing tests themselves use, and not only their classes."""
        listed = {item.dotted for item in self.names}
        items = [item for item in context.interface if item.name not in listed]
        if not self.sources.keys() >= set(context.failing):
            return items
        used = words("\n".join(self.sources[test] for test in context.failing).encode())
        return [
            item
            for item in items
            if (words(item.name.encode()) if item.kind == "message" else {item.name.rpartition(".")[2]}) <= used
        ]

    def _definitions(self) -> list[str]:
        """Return the paragraphs on definitions that are missing, or that have another head or documentation."""
        groups: dict[str, list[PublicName]] = {}
        for item in self.names:
            groups.setdefault(item.dotted, []).append(item)
        paragraphs, more = [], []
        for number, (dotted, items) in enumerate(groups.items()):
            heads = "\n".join(item.signature for item in items)
            if number >= MAX_QUOTED_NAMES:
                more.append(f"`{items[-1].signature}`, as `{dotted}`")
                continue
            state = "is missing" if items[-1].missing else "changes"
            paragraphs.append(f"## `{dotted}` {state}\n\nIt is:\n\n```python\n{heads}\n```")
            if items[-1].docstring:
                paragraphs.append(f"Its documentation is:\n\n{quoted(items[-1].docstring)}")
        return paragraphs + ([f"## Other definitions that are missing or change\n\n{bullets(more)}"] if more else [])

    def _failures(self, context: StatementContext) -> list[str]:
        """Return how tests fail, own tests first, and one message of each function first."""
        lines: dict[tuple[str, str], list[str]] = {}
        for test in sorted(context.failing, key=lambda test: test not in self.sources):
            text = context.messages.get(test, "").removesuffix(" Use -v to get more diff")
            if ":" in text and not text.startswith(_UNTELLING):
                path, _, case = test.partition("[")
                cases = lines.setdefault((_without_numbers(path.rpartition("::")[2]), text), [])
                if case and len(case) <= MAX_CASE and case.isprintable():
                    cases.append(f"[{case}")
        count: Counter[str] = Counter()
        ranked = []
        for (function, text), cases in lines.items():
            ranked.append((count[function], f"{function}{', '.join(cases[:MAX_CASES])}: {_code(text)}"))
            count[function] += 1
        shown = [line for _, line in sorted(ranked, key=lambda item: item[0])]
        others = [f"and {len(shown) - MAX_FAILURES} others"] if len(shown) > MAX_FAILURES else []
        return shown[:MAX_FAILURES] + others


def _without_issue(line: str) -> str:
    """Return the behaviour without the number of an issue; empty when the test's name says nothing else."""
    return re.sub(r"^(?:.*: )?$", "", re.sub(r"\b(?:issues?|gh|bug|pr|ticket) ?\d+\b ?", "", line).strip())


def _without_numbers(test: str) -> str:
    """Return a test, or its name, without the numbers and addresses of issues in its comments and its name."""
    test = re.sub(r"(?im)[ \t]*#[^\n\"']*\b(?:issues?|gh|bug|pr|ticket)[-_ #]*\d+[^\n\"']*$", "", test)
    test = re.sub(r"(?m)^[ \t]*#[^\n]*https?://[^\n]*\n", "", test)
    return re.sub(r"\btest\w*", lambda match: re.sub(r"(?i)_?(?:issue|gh|bug|ticket)_?\d+", "", match[0]), test)


def _below_headings(text: str) -> str:
    """Return the text without lines that would be headings of the statement."""
    return re.sub(r"(?m)^(#+ |[=~^-]{3,}$)", "", text).strip()


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}" if fence == "`" else f"{fence} {text} {fence}"
