"""Requirements of a record that decides alone: enough different calls, and answers that vary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..judging.equal_data import comparable
from ..recorded_calls import QUESTIONS, Call, RecordedCalls
from ..values.places import canonical
from .call_contents import call_contents

MIN_CALLS = 6
"""Fewest different calls of a record that decides alone; a guess could satisfy fewer."""

_DETAILS = re.compile(r" \(.*|\b[\w.]+:[\w.#]+: |`.*` | 0x[0-9a-f]+", re.DOTALL)


class Requirement(StrEnum):
    """The requirements of a record that decides alone, as docs/grading.md lists them."""

    TESTS = "enough tests"
    CALLS = "enough calls"
    ANSWERS = "different answers"
    NO_TABLE = "no lookup table"
    MUTANTS = "few mutants"
    NO_GUESS = "no guess"
    PASSING_TESTS = "enough PASS_TO_PASS tests"
    STATE = "the same module state in two runs"


@dataclass(frozen=True)
class Unmet:
    """A requirement that a record does not meet."""

    requirement: Requirement
    detail: str
    """What the record lacks, with names of functions and messages of exceptions."""
    cause: str = ""
    """Why most tests without a record have none, where they are too few."""

    @property
    def summary(self) -> str:
        """Return the requirement and the cause without names, numbers and messages: tasks share it."""
        cause = _DETAILS.sub("", self.cause)
        return f"{self.requirement}: {cause}" if cause else str(self.requirement)


def missing(
    recorded: RecordedCalls,
    reasons: Mapping[str, str],
    unreplaced: str,
    unseen: Collection[str],
    inner: Mapping[str, Collection[str]],
) -> Unmet | None:
    """Return what the record lacks to decide alone, None when it lacks nothing.

    ``reasons`` say why tests are not recorded, and ``unreplaced`` why a changed function cannot be replaced. ``unseen``
    are the changed functions that only tests without a record run, and ``inner`` digests of the answers that examined
    functions gave inside recorded calls, by function.
    """
    if unreplaced:
        return Unmet(Requirement.TESTS, unreplaced, "a changed function cannot be replaced")
    if unseen:
        detail = f"no recorded test runs {min(unseen)}"
        return Unmet(Requirement.TESTS, detail, most_frequent(reasons) if reasons else "no test runs a function")
    if weak := weakness(recorded, inner):
        return weak
    decided = len(recorded.tests) - len(recorded.passing)
    if decided < len(reasons):
        cause = most_frequent(reasons)
        detail = f"{len(reasons)} of {len(reasons) + decided} tests are not recorded: {cause}"
        return Unmet(Requirement.TESTS, detail, cause)
    return None


def too_weak(recorded: RecordedCalls, inner: Mapping[str, Collection[str]] | None = None) -> str:
    """Return why a guess could satisfy the record, '' when none could (see ``weakness``)."""
    unmet = weakness(recorded, inner)
    return unmet.detail if unmet else ""


def weakness(recorded: RecordedCalls, inner: Mapping[str, Collection[str]] | None = None) -> Unmet | None:
    """Return why a guess could satisfy the record, None when none could: few calls, or a function with one answer.

    Calls that the unsolved workspace answers as well do not count, except that calls of tests which have to keep
    passing may show that answers vary. ``inner`` is as in ``missing``.
    """
    arguments: set[str] = set()
    answers: dict[str, set[str]] = {}
    data: dict[str, set[str]] = {}
    texts: dict[tuple[str, str], set[str]] = {}
    examined = {*recorded.targets, *recorded.entries}
    groups = [*recorded.tests.values(), *recorded.inputs.values(), *recorded.sequences]
    contents = {id(call): text for calls in groups for call, text in zip(calls, call_contents(calls), strict=True)}
    for calls in [*recorded.tests.values(), *recorded.inputs.values()]:
        for call in (call for call in calls if call.get("needs", True)):
            arguments.add(contents[id(call)])
            answers.setdefault(_origin(call["target"], calls), set()).add(canonical(call["answer"]))
            data.setdefault(_origin(call["target"], calls), set()).add(canonical(comparable(call, call["answer"])))
    for calls in recorded.sequences:
        for call in (call for call in calls if call.get("needs", True)):
            if call["target"] in examined or call["target"][0] == "@":
                arguments.add(contents[id(call)])
                data.setdefault(_origin(call["target"], calls), set()).add(canonical(call["answer"]))
            elif call["target"] in QUESTIONS:  # about what an earlier call returned
                earlier_call = calls[int(call["arguments"][0][1].partition(".")[0])]
                answer = canonical([call["target"], call["answer"]])
                texts.setdefault((_origin(earlier_call["target"], calls), call["target"]), set()).add(answer)
    varying = {name for (name, _), different in texts.items() if len(different) > 1}
    varying |= {name for name, different in (inner or {}).items() if len(different) > 1}
    retained = _retained_answers(recorded)
    varying |= {name for name in answers if len(answers[name] | retained.get(name, set())) > 1 or len(data[name]) > 1}
    constant = next((name for name in sorted({*answers, *(inner or {})}) if name not in varying), "")
    if constant:
        return Unmet(Requirement.ANSWERS, f"every recorded call of {constant} has the same answer")
    if len(arguments) < MIN_CALLS:
        return Unmet(Requirement.CALLS, f"only {len(arguments)} different calls are recorded")
    return None


def constant_held_out(recorded: RecordedCalls) -> str:
    """Return why a record's held-out calls do not refute a table of the tests' calls, '' where they do or it has none.

    Where all held-out calls have one answer, a table could give it for every call that it does not hold.
    """
    answers: dict[str, set[str]] = {}
    for calls in recorded.inputs.values():
        for call in calls:
            answers.setdefault(call["target"], set()).add(canonical(comparable(call, call["answer"])))
    for calls in recorded.sequences:
        for call in calls:
            about = call["arguments"][0][1] if call["target"] in QUESTIONS else ""
            origin = calls[int(about.partition(".")[0])]["target"] + call["target"] if about else call["target"]
            answers.setdefault(_origin(origin, calls) if not about else origin, set()).add(canonical(call["answer"]))
    if not answers or any(len(different) > 1 for different in answers.values()):
        return ""
    return "every held-out call has the same answer: a table of what the tests ask would satisfy it"


def _retained_answers(recorded: RecordedCalls) -> dict[str, set[str]]:
    """Return the answers in tests that have to keep passing, by function."""
    answers: dict[str, set[str]] = {}
    for calls in (recorded.tests[test] for test in recorded.passing):
        for call in calls:
            answers.setdefault(_origin(call["target"], calls), set()).add(canonical(call["answer"]))
    return answers


def _origin(target: str, calls: Sequence[Call]) -> str:
    """Return a target; for a function that a call returned, the origin of that call's target, followed by ``()``."""
    returned = ""
    while target[0] == "@":
        target, returned = calls[int(target[1:].partition(".")[0])]["target"], returned + "()"
    return target + returned


def most_frequent(reasons: Mapping[str, str]) -> str:
    """Return the most frequent of the reasons."""
    counted = Counter(reasons.values()).most_common(1)
    return counted[0][0] if counted else "no test is recorded"
