"""Of many proposed calls, those are kept that kill most mutants."""

from __future__ import annotations

import random
from typing import Any

import pytest

from etude.environments.grading.out_of_process.held_out.variation import stretched
from etude.environments.grading.out_of_process.judging.answers import is_same_held_out
from etude.environments.grading.out_of_process.strength.mutant_answers import chosen

NONE: frozenset[int] = frozenset()


def kills(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


@pytest.mark.parametrize(
    ("each", "bold", "most", "expected"),
    [
        ([NONE, kills(1), kills(1, 2), NONE], [False] * 4, 1, [2]),
        ([NONE, kills(1), kills(1, 2), NONE], [False] * 4, 2, [1, 2]),
        ([NONE, kills(1), kills(1, 2), NONE], [False] * 4, 3, [0, 1, 2]),
        ([NONE, kills(1), kills(1, 2), kills(3)], [False, False, True, True], 4, [0, 1, 2, 3]),
        ([NONE, kills(1), kills(1)], [False, False, True], 4, [0, 1, 2]),
        ([kills(1), kills(1), kills(1)], [False, False, True], 4, [0, 1]),
        ([NONE, NONE], [False, True], 4, [0]),
        ([], [], 4, []),
    ],
)
def test_calls_that_kill_come_first_and_bold_ones_only_for_what_few_others_kill(
    each: list[frozenset[int]], bold: list[bool], most: int, expected: list[int]
) -> None:
    assert chosen(each, bold, most) == expected


def test_several_calls_are_kept_for_each_mutant() -> None:
    each = [kills(1), kills(1), kills(1, 2), NONE, kills(2), kills(3)]
    assert chosen(each, [False] * 6, 3) == [0, 2, 5], "each mutant once, then again"
    assert chosen(each, [False] * 6, 5) == [0, 1, 2, 4, 5]


def test_bold_calls_that_the_workspace_answers_otherwise_are_kept_where_there_are_few_such_calls() -> None:
    each = [NONE] * 12
    bold = [number > 1 for number in range(12)]
    assert chosen(each, bold, 12, needed=range(12)) == list(range(8))
    assert chosen(each, [False] * 12, 4, needed=[5]) == [0, 1, 2, 5]


def test_calls_of_other_kinds_fill_the_room() -> None:
    kinds = [frozenset("a"), frozenset("a"), frozenset("ab"), frozenset("c")]
    assert chosen([NONE] * 4, [False] * 4, 2, features=kinds) == [2, 3]


def test_stretched_values_go_a_little_beyond_what_was_seen() -> None:
    draws = [random.Random(seed) for seed in range(300)]
    assert {stretched(5, [3, 5, 9], draw) for draw in draws} == {2, 10, 0, -5}
    texts = {stretched("1.2-a", ["3.4-b"], draw) for draw in draws}
    assert {"", "1.2-A", "1.2-a3.4-b", "1", "1.2-a.4-b"} <= texts and {4, 6} <= set(map(len, texts))
    lists = [stretched(["l", 1, [1, 2, 3]], [], draw)[2] for draw in draws]
    assert [] in lists and [1, 2] in lists and [1, 1, 2, 3] in lists and [3, 2, 1] in lists
    assert stretched(None, [], draws[0]) is None and stretched(True, [], draws[0]) is True


def test_an_expected_exception_may_be_one_of_a_subclass_and_have_any_text() -> None:
    def answer(name: str, text: str, **more: Any) -> dict[str, Any]:
        return {"result": None, "after": None, "error": [["g", *name.split(":")], text, []], "printed": "", **more}

    call = {"target": "m:f", "arguments": [1], "keywords": {}, "answer": answer("builtins:ValueError", "bad")}
    private = {"m:Own": [["builtins", "ValueError"]]}
    assert is_same_held_out(call, answer("builtins:ValueError", "other"))
    assert is_same_held_out(call, answer("m:Own", "x", classes=private))
    assert not is_same_held_out(call, answer("m:Own", "x", classes={"m:Own": [["builtins", "KeyError"]]}))
    assert not is_same_held_out(call, answer("builtins:KeyError", "bad"))
    for odd in (None, {}, {"error": [3]}, {"error": [[]], "classes": 3}, {**call["answer"], "error": None}):
        assert not is_same_held_out(call, odd)
