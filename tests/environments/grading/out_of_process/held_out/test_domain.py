"""Domain of a function: held-out calls have only kinds of data that its tests show."""

from __future__ import annotations

import random
from typing import Any

import pytest

from etude.environments.grading.out_of_process.held_out.domain import is_shown, kinds_of, shown_domain
from etude.environments.grading.out_of_process.held_out.inputs import held_out_calls


def call(*arguments: Any, **keywords: Any) -> dict[str, Any]:
    answer = {"result": "x", "after": None, "error": None, "printed": ""}
    return {"target": "m:f", "arguments": list(arguments), "keywords": keywords, "answer": answer}


@pytest.mark.parametrize(
    ("shown", "other", "expected"),
    [
        ("employee_salary", "under_ground_x", True),
        ("employee_salary", "EMPLOYEE_salary", False),
        ("employee", "employee2", False),
        ("a b", " a", False),
        ("a-b", "a--b", False),
        ("a-b", "-ab", False),
        ("ab", "", False),
        ("", "", True),
        ("na\u00efve", "\u00fcber", True),
        ("naive", "\u00fcber", False),
        (3, 90, True),
        (3, 0, False),
        (3, -3, False),
        (True, False, True),
        (None, None, True),
        (["f", "1.5"], ["f", "-1.5"], False),
        (["l", 1, ["a"]], ["l", 2, ["b", "c"]], True),
        (["l", 1, ["a"]], ["l", 2, []], False),
        (["d", 1, [["a", 1]]], ["d", 2, [["b", 0]]], False),
        (["t", [1, "a"]], ["t", [2, "B"]], False),
    ],
)
def test_an_argument_is_shown_where_tests_have_its_kinds(shown: Any, other: Any, expected: bool) -> None:
    assert is_shown(call(other), shown_domain([call(shown)])["m:f"]) is expected


def test_each_place_has_a_domain_of_its_own_and_several_calls_add_to_it() -> None:
    domain = shown_domain([call("ab", 1, mark="!"), call("A B", 0)])["m:f"]
    assert is_shown(call("Ab", 7), domain) and is_shown(call("ab", 0, mark="!"), domain)
    assert not is_shown(call("!", 1), domain) and not is_shown(call("ab", 1, mark="a"), domain)
    assert is_shown(call("ab", 1, further="Any-0"), domain), "nothing is known of it"
    assert kinds_of(["g", "m", "f"]) == frozenset()


def test_texts_are_equal_in_two_places_only_where_tests_have_one_in_both() -> None:
    separate = [[call(f"text {letter}", "_")] for letter in "abcd"]
    shared = [[call(letter, other)] for letter, other in zip("abcd", "bcda", strict=True)]
    for tests, expected in ((separate, False), (shared, True)):
        new = held_out_calls(tests, random.Random(5), is_bold=False)["m:f"]
        assert any(item["arguments"][0] == item["arguments"][1] for item in new) is expected
    numbers = [[call(number, number + 10)] for number in range(4)]
    new = held_out_calls(numbers, random.Random(5), is_bold=False)["m:f"]
    assert any(item["arguments"][0] == item["arguments"][1] for item in new)
