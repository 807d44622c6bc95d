"""Held-out values near the constants of a solution that an agent can know."""

from __future__ import annotations

import ast
import random
from typing import Any

from etude.environments.grading.out_of_process.held_out.constants import Constants, constants_of
from etude.environments.grading.out_of_process.held_out.inputs import held_out_calls
from etude.environments.grading.out_of_process.held_out.near_values import near

CODE = 'def f(n, text):\n    """Use "hidden" and 77."""\n    return n > 12 and text.startswith("ab") or n == 500\n'


def values(form: Any, constants: Constants) -> list[Any]:
    return [near(form, constants, random.Random(seed)) for seed in range(300)]


def test_a_constant_is_used_where_the_statement_or_a_test_names_it() -> None:
    function = ast.parse(CODE).body[0]
    assert constants_of([function], "at most 12 of them, which start with ab") == Constants((12,), ("ab",))
    assert constants_of([function], "of them; 1250 or 12.5") == Constants()


def test_numbers_are_at_a_limit_and_on_both_sides_of_it() -> None:
    assert set(values(5, Constants((12,)))) == {4, 5, 6, 11, 12, 13}
    assert {near(["f", "2.0"], Constants((12,)), random.Random(seed))[1] for seed in range(300)} >= {"11.5", "12.0"}
    assert set(values(True, Constants())) == {False}


def test_texts_contain_a_constant_at_the_start_in_the_middle_and_at_the_end() -> None:
    found = set(values("xyz", Constants((), ("ab",))))
    assert {"abxyz", "xyzab", "xabyz", "abz", "ab", "ABxyz", "ababxyz"} <= found
    assert {4, 5, 6} <= set(map(len, values("xy", Constants((5,)))))
    assert {"v11", "v12", "v13"} <= set(values("v7", Constants((12,))))


def test_lists_have_a_length_at_a_limit_or_another_order() -> None:
    lists = [form[2] for form in values(["l", 1, ["p", "q"]], Constants((4,)))]
    assert {3, 4, 5} <= set(map(len, lists)) and ["q", "p"] in lists
    assert near(["l", 1, []], Constants(), random.Random(1)) == ["l", 1, []]


def test_some_calls_differ_from_one_of_a_test_in_one_argument_alone() -> None:
    answer = {"error": None, "after": None, "result": 3, "printed": ""}
    model = {"target": "m:f", "arguments": [9, 3], "keywords": {}, "answer": answer}
    calls = held_out_calls([[model]], random.Random(1), True, constants=Constants((40,)))["m:f"]
    changed = [call["arguments"] for call in calls if "is_bold" in call and call["arguments"][1] == 3]
    assert {39, 40, 41} <= {first for first, _ in changed}
