"""Examples: which calls of failing tests a statement shows with their right results."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...base import Example, SessionLine
from ...statements.examples import is_about, keywords, session_text
from .outcomes import Outcomes, result_of
from .sessions import MAX_LINES, RecordedCall, Session, length, sessions_of

MAX_TEXT, MAX_ONE = 2500, 700
"""Most characters of all examples, and of one."""
MAX_TRIED = 12
"""Sessions of one test that are tried, the plainest ones."""
MAX_ATTRIBUTES = 2


def first_cases(tests: Sequence[str]) -> list[str]:
    """Return the first case of each test function, in suite order."""
    return list({test.partition("[")[0]: test for test in reversed(tests)}.values())[::-1]


def spread(number: int, most: int) -> list[int]:
    """Return at most ``most`` of the first ``number`` integers, with even distances."""
    count = min(number, most)
    return [index * number // count for index in range(count)]


def plainest(calls: Sequence[RecordedCall], names: Collection[str], most: int) -> list[Session]:
    """Return the shortest sessions of one test: those that spell one of ``names``, then those that do more than make
    an object.
    """

    def rank(session: Session) -> tuple[bool, bool, tuple[int, str]]:
        call = calls[session.chosen[-1]]
        is_construction = call.makes is not None and call.text.startswith(f"{call.type}(")
        return not set(re.findall(r"\w+", session.call)) & set(names), is_construction, length(session)

    sessions = [item for item in sessions_of(calls) if len(item.lines) <= MAX_LINES]
    return sorted(dict.fromkeys(sessions), key=rank)[: min(most, MAX_TRIED)]


def example_of(test: str, session: Session, outcomes: Outcomes) -> Example | None:
    """Return the session as an example; None when it has no result to show, or another than in the test."""
    results = [result_of(outcome) for outcome in session.outcomes_of_lines(outcomes)]
    shown = [item for item in results if item is not None]
    if not results or len(shown) < len(results):
        return None
    result, before = shown[-1], shown[:-1]
    if (result.kind == "raises") != session.raised or not (result.text or result.printed):
        return None
    if any("0x..." in item.text + item.printed for item in shown):
        return None
    lines = [SessionLine(line, item.printed + item.text) for line, item in zip(session.lines, before, strict=False)]
    return Example(test, session.imports, tuple(lines), session.call, result)


def is_missing(session: Session, right: Outcomes, wrong: Outcomes) -> bool:
    """Return whether the exercise does not give the right result; a session that did not end says nothing."""
    if not wrong:
        return False
    outcomes = session.outcomes_of_lines(wrong)
    return not outcomes or result_of(outcomes[-1]) != result_of(right[-1])


def attribute_sessions(sessions: Sequence[Session], right: Mapping[Session, Outcomes]) -> list[Session]:
    """Return sessions that ask for an attribute of an object which cannot be shown itself."""
    return [item for session in sessions for item in _by_attribute(session, right[session])][:MAX_ATTRIBUTES]


def _by_attribute(session: Session, outcomes: Outcomes) -> Iterator[Session]:
    outcomes = session.outcomes_of_lines(outcomes)
    tree = ast.parse(session.call).body[0]
    if outcomes and isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Call):
        for name in outcomes[-1]["attributes"]:
            yield replace(session, lines=(*session.lines[:-1], f"{session.call}.{name}"))


def chosen_examples(groups: Sequence[Sequence[Example | None]], most: int, subject: str = "") -> list[Example]:
    """Return at most one example per test, each call once, as long as all of them are short together.

    ``groups`` are the examples of each test, the plainest first. Preferred are the first test, then those with words of
    the name ``subject``, with keywords that no other example shows, and others from the whole suite.
    """
    tests = [[item for item in group if item is not None] for group in groups]
    selection = _Selection([group for group in tests if group], most)
    for index, options in enumerate(selection.tests):
        if not index or len(selection.chosen) <= most // 2:
            selection.add(index, [item for item in options if not index or is_about(item, subject)])
    for index, options in enumerate(selection.tests):
        selection.add(index, [item for item in options if selection.is_new(item)])
    for index in [*spread(len(selection.tests), most), *range(len(selection.tests))]:
        selection.add(index, selection.tests[index])
    return [selection.chosen[index] for index in sorted(selection.chosen)]


@dataclass
class _Selection:
    """The examples that were chosen so far."""

    tests: list[list[Example]]  # the examples of each test
    most: int  # how many may be chosen
    chosen: dict[int, Example] = field(default_factory=dict)  # by the number of the test
    keywords: set[str] = field(default_factory=set)  # keyword arguments that they show
    sessions: set[str] = field(default_factory=set)  # their texts
    room: int = MAX_TEXT  # characters that are left

    def is_new(self, example: Example) -> bool:
        """Return whether an example shows a keyword argument that no chosen one has."""
        return not self.keywords.issuperset(keywords(example))

    def add(self, index: int, options: Sequence[Example]) -> None:
        """Choose the first of ``options`` that fits for a test, if it has none."""
        for example in options if index not in self.chosen and len(self.chosen) < self.most else ():
            text = session_text(example)
            if text not in self.sessions and len(text) <= min(self.room, MAX_ONE):
                self.chosen[index] = example
                self.keywords.update(keywords(example))
                self.sessions.add(text)
                self.room -= len(text)
                return
