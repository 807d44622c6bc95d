"""Tests whose arguments show what others expect are asked in different sandboxes."""

from __future__ import annotations

from typing import Any

from etude.environments.grading.out_of_process.judging.separation import groups_of_tests


def call(*arguments: Any, result: Any) -> dict[str, Any]:
    answer = {"result": result, "after": None, "error": None, "printed": ""}
    return {"target": "m:plural", "arguments": list(arguments), "keywords": {}, "answer": answer}


def group_of(groups: list[set[str]], name: str) -> int:
    (number,) = (number for number, group in enumerate(groups) if name in group)
    return number


def test_a_table_of_two_tests_is_not_asked_at_once() -> None:
    words = [("ox", "oxen"), ("mouse", "mice"), ("person", "people")]
    singular = {str(number): [call(one, result=many)] for number, (one, many) in enumerate(words)}
    plural = {str(number + 3): [call(many, result=many)] for number, (_, many) in enumerate(words)}
    groups = groups_of_tests({**singular, **plural})
    assert sorted(name for group in groups for name in group) == list("012345")
    for number in range(3):
        assert group_of(groups, str(number)) != group_of(groups, str(number + 3))


def test_what_is_inside_other_values_counts() -> None:
    pair, row = ["t", ["abc", 5]], ["l", 1, [["d", 2, [["name", "abc"]]]]]
    groups = groups_of_tests({"0": [call(7, result=pair)], "1": [call(row, result=3)], "2": [call(8, result=9)]})
    assert group_of(groups, "0") != group_of(groups, "1")


def test_tests_that_show_nothing_share_a_sandbox() -> None:
    echo = {"0": [call("same", result="same")], "1": [call("same", "other", result="other")]}
    assert groups_of_tests(echo) == [{"0", "1"}]
    named = {"0": [call(1, result=["g", "m", "Kind"])], "1": [call(["g", "m", "Kind"], result=2)]}
    assert groups_of_tests(named) == [{"0", "1"}]
    assert groups_of_tests({}) == []


def test_what_many_tests_are_given_shows_nothing() -> None:
    usual = {str(number): [call("usual", number, result=number)] for number in range(20)}
    assert len(groups_of_tests({**usual, "20": [call(99, result="usual")]})) == 1
