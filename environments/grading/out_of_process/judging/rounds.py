"""What a solution is requested next, where a test has not got the calls that were answered.

A test run on a solution's answers stops at a call without an answer. In the next round the solution is given the calls
as the test made them, and after these the rest of the calls as they were sent before: most tests continue as recorded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..recorded_calls import Call

COMPARISONS = frozenset(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__"))
COMPARISONS |= frozenset(
    f"__{side}{name}__" for side in ("", "r") for name in ("sub", "add", "mul", "truediv", "mod", "and", "or", "xor")
)
"""Methods whose argument may be what a test expects: ``pytest.approx`` subtracts, ``in`` asks a container.

What has no argument (``__bool__``, ``__len__``, ``__hash__``) shows nothing.
"""
_PARTS = ("target", "arguments", "keywords")
_NUMBERED = frozenset(("l", "S", "d", "ba", "o", "m", "n", "h", "O", "fn", "k", "L", "r"))
_ANSWERED = re.compile(r"\d+\..*\d")


def is_open(exception: str, crossing: Mapping[str, Any]) -> bool:
    """Return whether a failed test may pass with more answers: it made a call that had none.

    ``exception`` is the class of what it failed with, ``crossing`` what the boundary noted. A test that had an answer
    to each of its calls has been judged: another answer would be a second guess.
    """
    return exception == "Unanswered" or bool(crossing.get("unanswered"))


def next_questions(sent: Sequence[Call], requested: Sequence[Call]) -> list[Call]:
    """Return the calls of the next round: those of the test's last run, and then the rest of those sent before.

    Where the last call differs in the numbers of objects alone, the rest has the new numbers too. Calls that are nested
    too deeply are sent alone.
    """
    try:
        return _with_the_rest(sent, requested)
    except RecursionError:
        return list(map(_bare, requested))


def _with_the_rest(sent: Sequence[Call], requested: Sequence[Call]) -> list[Call]:
    numbers: dict[str, str] = {}
    position = len(requested) - 1
    if 0 <= position < len(sent) and not _matched(_bare(sent[position]), _bare(requested[position]), numbers):
        numbers = {}
    remaining = [_bare(call) for call in sent[len(requested) :]]
    targets = [_renamed_target(call["target"], numbers) for call in remaining]
    return [
        *map(_bare, requested),
        *({**_renamed(call, numbers), "target": target} for call, target in zip(remaining, targets, strict=True)),
    ]


def _bare(call: Call) -> Call:
    return {name: call[name] for name in _PARTS if name in call}


def _matched(before: Any, now: Any, numbers: dict[str, str]) -> bool:
    """Return whether two forms differ in numbers of answers alone, and note which stands for which."""
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
    """Return a test's calls with a solution's answers when it is asked again for more of them.

    An answer that was given stands: by now the solution could have read it in a later call's arguments. From the first
    call on that is another one, the calls are new; but those in ``received``, whose answers the test has had, are not.
    """
    calls_answered: list[dict[str, Any]] = []
    is_same = True
    for number, (call, answer) in enumerate(zip(calls, answers)):  # noqa: B905  of Python 3.10
        before = earlier[number] if number < len(earlier) else None
        is_same = is_same and before is not None and all(before[part] == call[part] for part in _PARTS)
        stands = before is not None and (is_same or number in received)
        calls_answered.append({**call, "answer": before["answer"] if before is not None and stands else answer})
    return calls_answered


def revealing_call(
    sent: Sequence[Mapping[str, Any]],
    requested: Sequence[Mapping[str, Any]],
    recorded: Iterable[Sequence[Mapping[str, Any]]],
) -> str:
    """Return the target of a call that was not sent before and would give away what a test expects, '' without one."""
    tests = list(recorded)
    for number, call in enumerate(requested):
        is_sent = number < len(sent) and all(sent[number][part] == call[part] for part in _PARTS)
        if not is_sent and gives_away(call, tests):
            return str(call["target"])
    return ""


def gives_away(call: Mapping[str, Any], recorded: Iterable[Sequence[Mapping[str, Any]]]) -> bool:
    """Return whether a new question compares an object with plain data, of a kind that no recorded one compares.

    An answer that is an object where the test expects data would have the solution asked whether it equals that.
    """
    if call["target"].rpartition(".")[2] not in COMPARISONS:
        return False
    kinds = {
        _kind(form)
        for calls in recorded
        for other in calls
        for form in [*other["arguments"], *other["keywords"].values()]
        if other["target"] == call["target"]
    }
    return any(_kind(form) not in ("", *kinds) for form in [*call["arguments"], *call["keywords"].values()])


def _kind(form: Any) -> str:
    """Return the kind of plain data, '' for anything else."""
    if isinstance(form, list):
        return form[0] if form[0] in ("f", "c", "s", "b", "t", "F", "l", "S", "d", "ba") else "int" * (form[0] == "i")
    return "" if form is None else type(form).__name__
