"""Held-out calls that all have the same answer do not refute a lookup table."""

from __future__ import annotations

from typing import Any

import pytest

from etude.environments.grading.out_of_process.recorded_calls import Call, RecordedCalls
from etude.environments.grading.out_of_process.strength.requirements import constant_held_out


def answer(result: Any) -> dict[str, Any]:
    return {"result": result, "after": None, "error": None, "printed": ""}


def call(target: str, argument: Any, result: Any) -> Call:
    return {"target": target, "arguments": [argument], "keywords": {}, "answer": answer(result)}


def recorded(inputs: dict[str, list[Call]], sequences: list[list[Call]]) -> RecordedCalls:
    return RecordedCalls(["m:f"], [], ["m"], {}, inputs=inputs, sequences=sequences)


ONE = [call("m:f", "a", True), call("m:f", "b", True)]
TWO = [call("m:f", "a", True), call("m:f", "b", False)]
MAKER = [call("m:f", None, ["?"]), call("@0.1", "path", "path")]
OTHER_MAKER = [call("m:f", None, ["?"]), call("@0.1", "other", "other")]
ASKED = [call("m:f", 1, ["?"]), call("builtins:repr", ["r", "0.1"], "X(1)")]
ASKED_OTHERWISE = [call("m:f", 2, ["?"]), call("builtins:repr", ["r", "0.1"], "X(2)")]


@pytest.mark.parametrize(
    ("inputs", "sequences", "is_constant"),
    [
        ({}, [], False),
        ({"m:f": ONE}, [], True),
        ({"m:f": TWO}, [], False),
        ({"m:f": ONE, "m:g": [call("m:g", 1, 2)]}, [], True),
        ({}, [MAKER, MAKER], True),
        ({}, [MAKER, OTHER_MAKER], False),
        ({}, [ASKED, ASKED], True),
        ({}, [ASKED, ASKED_OTHERWISE], False),
    ],
)
def test_one_answer_to_all_calls_of_a_function_is_a_tables_default(
    inputs: dict[str, list[Call]], sequences: list[list[Call]], is_constant: bool
) -> None:
    assert bool(constant_held_out(recorded(inputs, sequences))) is is_constant
