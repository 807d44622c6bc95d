"""Rounds of questions: what a solution is asked next when a test made a call that has no answer yet.

A test that runs on a solution's answers stops at a call without an answer. In the next round the solution is sent the
calls as the test made them, followed by the remaining calls as they were sent before: most tests continue as recorded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..forms import argument_forms
from ..recorded_calls import QUESTION_PARTS, Call, question

COMPARISONS = frozenset(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__"))
COMPARISONS |= frozenset(
    f"__{side}{name}__" for side in ("", "r") for name in ("sub", "add", "mul", "truediv", "mod", "and", "or", "xor")
)
"""Methods whose argument may be the value that a test expects: ``pytest.approx`` subtracts, ``in`` asks a container.

Methods without an argument (``__bool__``, ``__len__``, ``__hash__``) show nothing.
"""
_NUMBERED = frozenset(("l", "S", "d", "ba", "o", "m", "n", "h", "O", "fn", "k", "L", "r"))
_ANSWERED = re.compile(r"\d+\..*\d")


def is_open(exception: str, crossing: Mapping[str, Any]) -> bool:
    """Return whether a failed test may pass with more answers, because it made a call that had none.

    ``exception`` is the class of the exception that it failed with, ``crossing`` the notes of the boundary. A test that
    had an answer to each of its calls has been judged: to ask again would allow the solution a second guess.
    """
    return exception == "Unanswered" or bool(crossing.get("unanswered"))


def next_questions(sent: Sequence[Call], requested: Sequence[Call]) -> list[Call]:
    """Return the calls of the next round: those of the test's last run, then the remaining ones that were sent before.

    Where the last call differs only in the numbers of its objects, the remaining calls get the new numbers too. Calls
    that are nested too deeply for this are sent without the remaining ones.
    """
    try:
        return _with_the_rest(sent, requested)
    except RecursionError:
        return list(map(question, requested))


def _with_the_rest(sent: Sequence[Call], requested: Sequence[Call]) -> list[Call]:
    numbers: dict[str, str] = {}
    position = len(requested) - 1
    if 0 <= position < len(sent) and not _matched(question(sent[position]), question(requested[position]), numbers):
        numbers = {}
    remaining = [question(call) for call in sent[len(requested) :]]
    targets = [_renamed_target(call["target"], numbers) for call in remaining]
    return [
        *map(question, requested),
        *({**_renamed(call, numbers), "target": target} for call, target in zip(remaining, targets, strict=True)),
    ]


def _matched(before: Any, now: Any, numbers: dict[str, str]) -> bool:
    """Return whether two forms differ only in numbers of answers; note in ``numbers`` which replaces which."""
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        start = 0
        if _tag(now) == _tag(before) in _NUMBERED and _is_answered(before[1], now[1]):
            if numbers.setdefault(before[1], now[1]) != now[1]:
                return False
            start = 2
        return all(_matched(*pair, numbers) for pair in zip(before[start:], now[start:], strict=True))
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        return all(_matched(before[name], now[name], numbers) for name in before)
    return type(before) is type(now) and bool(before == now)


def _tag(form: list[Any]) -> str:
    return form[0] if len(form) > 1 and isinstance(form[0], str) else ""


def _is_answered(*numbers: Any) -> bool:
    return all(isinstance(number, str) and _ANSWERED.fullmatch(number) for number in numbers)


def _renamed(form: Any, numbers: Mapping[str, str]) -> Any:
    if isinstance(form, dict):
        return {name: _renamed(item, numbers) for name, item in form.items()}
    if not isinstance(form, list):
        return form
    parts = [_renamed(item, numbers) for item in form]
    if _tag(form) in _NUMBERED and isinstance(form[1], str):
        parts[1] = numbers.get(form[1], form[1])
    return parts


def _renamed_target(target: str, numbers: Mapping[str, str]) -> str:
    return f"@{numbers.get(target[1:], target[1:])}" if target.startswith("@") else target


def stood_by(
    earlier: Sequence[Mapping[str, Any]],
    calls: Sequence[Mapping[str, Any]],
    answers: Sequence[Any],
    received: Collection[int] = (),
) -> list[dict[str, Any]]:
    """Return a test's calls with a solution's answers in a later round, where earlier answers stand.

    An earlier answer cannot be taken back: by now the solution could have read the right one in the arguments of a
    later call. From the first call on that differs from ``earlier``, the calls are new and have new answers, except
    those in ``received``: the test has already had their answers.
    """
    calls_answered: list[dict[str, Any]] = []
    is_same = True
    for number, (call, answer) in enumerate(zip(calls, answers)):  # noqa: B905  of Python 3.10
        before = earlier[number] if number < len(earlier) else None
        is_same = is_same and before is not None and all(before[part] == call[part] for part in QUESTION_PARTS)
        stands = before is not None and (is_same or number in received)
        calls_answered.append({**call, "answer": before["answer"] if before is not None and stands else answer})
    return calls_answered


def revealing_call(
    sent: Sequence[Mapping[str, Any]],
    requested: Sequence[Mapping[str, Any]],
    recorded: Iterable[Sequence[Mapping[str, Any]]],
) -> str:
    """Return the target of a new call that would show the solution what a test expects, '' when there is none."""
    tests = list(recorded)
    for number, call in enumerate(requested):
        is_sent = number < len(sent) and all(sent[number][part] == call[part] for part in QUESTION_PARTS)
        if not is_sent and gives_away(call, tests):
            return str(call["target"])
    return ""


def gives_away(call: Mapping[str, Any], recorded: Iterable[Sequence[Mapping[str, Any]]]) -> bool:
    """Return whether a new call compares an object with plain data of a kind that no recorded call compares it with.

    Where a test expects data and a solution answers with an object of its own, the test asks whether that object equals
    the expected data: sent to the solution, this question would contain the right answer.
    """
    if call["target"].rpartition(".")[2] not in COMPARISONS:
        return False
    kinds = {
        _kind(form)
        for calls in recorded
        for other in calls
        for form in argument_forms(other)
        if other["target"] == call["target"]
    }
    return any(_kind(form) not in ("", *kinds) for form in argument_forms(call))


def _kind(form: Any) -> str:
    """Return the kind of plain data, '' for anything else."""
    if isinstance(form, list):
        return form[0] if form[0] in ("f", "c", "s", "b", "t", "F", "l", "S", "d", "ba") else "int" * (form[0] == "i")
    return "" if form is None else type(form).__name__
