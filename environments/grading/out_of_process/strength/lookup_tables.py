"""Lookup tables: wrong solutions that hold the calls of the tests, and answer all other calls with one default.

Only held-out calls refute such a solution, and only those whose answer is not the default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..forms import argument_forms, type_of
from ..judging.equal_data import comparable, plain_data
from ..recorded_calls import Call, RecordedCalls
from ..values.places import canonical


def refuted_defaults(calls: Sequence[Call]) -> list[frozenset[int]]:
    """Return the defaults that each of a function's calls refutes, as negative numbers.

    -1 is the most frequent answer, -2 the first argument, -3 the second, and so on.
    """
    answers = [_answer(call) for call in calls]
    frequent = Counter(answers).most_common(1)[0][0] if answers else ""
    width = max((len(argument_forms(call)) for call in calls), default=0)
    return [
        frozenset(
            ([-1] if answer != frequent else [])
            + [-2 - place for place in range(width) if not _is_argument(call, place)]
        )
        for call, answer in zip(calls, answers, strict=True)
    ]


def satisfying_table(recorded: RecordedCalls) -> str:
    """Return why a table of the tests' calls would satisfy the record, '' when none would."""
    for target, inputs in sorted(recorded.inputs.items()):
        of_sequences = [call for calls in recorded.sequences for call in calls if call["target"] == target]
        if len({*map(_outcome, inputs), *(_outcome(call, is_data=True) for call in of_sequences)}) == 1:
            return f"every held-out call of {target} has the same answer"
        if of_sequences:
            continue
        for place in range(max(len(argument_forms(call)) for call in inputs)):
            if all(_is_argument(call, place) for call in inputs):
                return f"every held-out call of {target} returns its argument {place + 1}"
        calls = [*inputs, *(call for call in recorded.test_calls if call["target"] == target)]
        by_types: dict[str, set[str]] = {}
        for call in calls:
            by_types.setdefault(canonical([type_of(form) for form in argument_forms(call)]), set()).add(_answer(call))
        if all(len(answers) == 1 for answers in by_types.values()):
            return f"the answers of {target} depend on the types of its arguments alone"
    return ""


def _outcome(call: Call, is_data: bool = False) -> str:
    """Return a call's result and exception as data; the answers of sequences are data already."""
    answer = call["answer"] if is_data else comparable(call, call["answer"])
    return canonical([answer["result"], answer["error"]])


def _answer(call: Call) -> str:
    return canonical(comparable(call, call["answer"]))


def _is_argument(call: Call, place: int) -> bool:
    forms, answer = argument_forms(call), call["answer"]
    if place >= len(forms) or answer["error"]:
        return False
    data = plain_data(forms[place])
    return data != ["?"] and bool(canonical(data) == canonical(plain_data(answer["result"])))
