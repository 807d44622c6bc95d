"""A record must refute a table of the tests' calls with one default answer."""

from __future__ import annotations

from typing import Any

import pytest

from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.grading.out_of_process.strength.lookup_tables import refuted_defaults, satisfying_table


def call(argument: Any, result: Any, *more: Any) -> dict[str, Any]:
    answer = {"result": result, "after": None, "error": None, "printed": ""}
    return {"target": "m:f", "arguments": [argument, *more], "keywords": {}, "answer": answer}


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ([call(n, n * n) for n in range(2, 6)], ""),
        ([call(n, True) for n in range(2, 6)], "every held-out call of m:f has the same answer"),
        ([call(0, n, n) for n in range(2, 6)], "every held-out call of m:f returns its argument 2"),
        ([call(["l", n, [n]], ["l", "0.1", [n]]) for n in range(2, 6)], "every held-out call of m:f returns"),
        ([call(4, "int"), call(5, "int"), call("a", "str")], "the answers of m:f depend on the types of its arguments"),
        ([call(4, "int"), call(5, "odd"), call("a", "str")], ""),
    ],
)
def test_a_table_with_a_default_is_refused(inputs: list[dict[str, Any]], reason: str) -> None:
    record = RecordedCalls(["m:f"], [], ["m"], {"t": [call(7, "int")] if "types" in reason else []}, {"m:f": inputs})
    assert satisfying_table(record).startswith(reason) and bool(satisfying_table(record)) is bool(reason)
    sequences = [[{**inputs[0], "answer": {"result": "other", "after": [None], "error": None, "printed": ""}}]]
    assert satisfying_table(RecordedCalls(["m:f"], [], ["m"], {}, {"m:f": inputs}, sequences)) == ""


def test_sequences_with_the_same_answer_refute_no_default() -> None:
    inputs = [call(n, False) for n in range(2, 6)]
    same = [[{**inputs[0], "answer": {"result": 0, "after": [None], "error": None, "printed": ""}}]]
    other = [[{**inputs[0], "answer": {"result": 1, "after": [None], "error": None, "printed": ""}}]]
    record = RecordedCalls(["m:f"], [], ["m"], {}, {"m:f": inputs}, [*same, *same])
    assert satisfying_table(record) == "every held-out call of m:f has the same answer"
    assert satisfying_table(RecordedCalls(["m:f"], [], ["m"], {}, {"m:f": inputs}, [*same, *other])) == ""


def test_calls_refute_the_defaults_that_they_do_not_have() -> None:
    calls = [call(1, 1), call(2, 1), call(3, 4), call(4, 4, 4), call(5, 1)]
    assert refuted_defaults(calls) == [
        frozenset({-3}),
        frozenset({-2, -3}),
        frozenset({-1, -2, -3}),
        frozenset({-1}),
        frozenset({-2, -3}),
    ]
    assert refuted_defaults([]) == []
