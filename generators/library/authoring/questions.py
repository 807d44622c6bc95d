"""Questions with exact answers: how each one is answered from what the validator observed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ....environments.grading.answer import normal_form
from ....errors import Rejected
from ....models import AnswerForm
from ...base import Answered, Observed

MIN_NAMES, MAX_NAMES = 2, 12
MIN_VALUE, MAX_VALUE = 6, 240
"""Characters of a value."""

Spans = Mapping[str, Sequence[tuple[str, int, int]]]
"""Functions by file: dotted name, first and last line of the body or of the whole function."""


def _joined(names: Iterable[str]) -> str:
    return normal_form(", ".join(names), "names")


def _refuse_size(names: Sequence[str] | set[str]) -> None:
    if not MIN_NAMES <= len(names) <= MAX_NAMES:
        raise Rejected("v1_no_answer", f"{len(names)} names are the answer, not {MIN_NAMES} to {MAX_NAMES}")


@dataclass(frozen=True)
class TestsOfLine:
    """The question which tests run a line."""

    form: ClassVar[AnswerForm] = "names"
    program: ClassVar[str] = ""
    traced: ClassVar[tuple[str, ...]] = ()

    path: str
    line: int
    guesses: tuple[str, ...]
    """Likely wrong answers: all tests of the function around the line."""

    def answer(self, observed: Observed) -> Answered:
        """Return the test functions that run the line. Raises Rejected for too few or too many."""
        tests = [test for test, files in observed.covered.items() if test and self.line in files.get(self.path, ())]
        names = {test.partition("[")[0] for test in tests}
        _refuse_size(names)
        return Answered(_joined(names), guesses=self.guesses)


@dataclass(frozen=True)
class FunctionsOfTest:
    """The question which functions a test runs."""

    form: ClassVar[AnswerForm] = "names"
    program: ClassVar[str] = ""

    test: str
    bodies: Spans
    unclear: Spans
    """Functions on one line: it runs at import too, so that coverage does not show whether they were called."""

    @property
    def traced(self) -> tuple[str, ...]:
        """Return the test: other tests could do the work of its fixtures, or fill caches."""
        return (self.test,)

    def answer(self, observed: Observed) -> Answered:
        """Return the functions that the test runs and the import does not. Raises Rejected for too few or too many."""
        covered, outside = observed.covered.get(self.test, {}), observed.covered.get("", {})
        if unclear := _run(self.unclear, covered):
            raise Rejected("v1_no_answer", f"{min(unclear)} is on one line, which also runs at import")
        names = _run(self.bodies, covered) - _run(self.bodies, outside)
        _refuse_size(names)
        return Answered(_joined(names))


def _run(functions: Spans, covered: Mapping[str, Sequence[int]]) -> set[str]:
    """Return the functions of which a line runs."""
    return {
        name
        for path, lines in covered.items()
        for name, first, last in functions.get(path, ())
        if any(first <= line <= last for line in lines)
    }


@dataclass(frozen=True)
class FunctionsOfCall:
    """The question which functions run during a call."""

    form: ClassVar[AnswerForm] = "names"
    traced: ClassVar[None] = None

    program: str
    module: str
    functions: Spans
    called: str

    def answer(self, observed: Observed) -> Answered:
        """Return the functions of the call that runs most of them. Raises Rejected where there are too few."""
        calls = {call: self._names(places) for call, (_, places) in json.loads(observed.printed).items()}
        fitting = {call: names for call, names in calls.items() if MIN_NAMES < len(names) <= MAX_NAMES}
        if not fitting:
            sizes = sorted(map(len, calls.values()))
            raise Rejected("v1_no_answer", f"no call runs {MIN_NAMES + 1} to {MAX_NAMES} functions, but {sizes}")
        call = max(fitting, key=lambda item: len(fitting[item]))
        return Answered(_joined(fitting[call]), f"{self.module}.{call}", (self.called,))

    def _names(self, places: Iterable[tuple[str, int]]) -> set[str]:
        """Return the functions around places; a function inside another is part of the outer one."""
        return {
            name for path, line in places for name, first, last in self.functions.get(path, ()) if first <= line <= last
        }


@dataclass(frozen=True)
class ValueOfCall:
    """The question what a call returns."""

    form: ClassVar[AnswerForm] = "value"
    traced: ClassVar[None] = None

    program: str
    module: str

    def answer(self, observed: Observed) -> Answered:
        """Return the value of the call that is least obvious. Raises Rejected where every value is short or obvious."""
        values = {call: text for call, (text, _) in json.loads(observed.printed).items()}
        fitting = {call: text for call, text in values.items() if _worth_asking(call, text)}
        if not fitting:
            shown = "; ".join(list(values.values())[:3])[:200]
            raise Rejected("v1_no_answer", f"none of {len(values)} values is worth asking for: {shown}")
        call = max(fitting, key=lambda item: (len(set(fitting[item])), len(fitting[item])))
        arguments = call.partition("(")[2].removesuffix(")")
        return Answered(normal_form(fitting[call], "value"), f"{self.module}.{call}", (arguments,))


def _worth_asking(call: str, text: str) -> bool:
    """Return whether a value is long enough, and not a part of its call."""
    plain = text.strip("'\"[](){} ")
    return MIN_VALUE <= len(text) <= MAX_VALUE and bool(plain) and plain not in call
