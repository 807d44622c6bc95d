"""Answers to held-out calls are equal where their data is: as in Python, and sequences of any type are equal."""

from __future__ import annotations

import collections
from typing import Any

import pytest

from etude.environments.grading.out_of_process.judging.answers import is_as, is_same_held_out
from etude.environments.grading.out_of_process.judging.equal_data import plain_data


def answer(side: dict[str, Any], value: Any) -> dict[str, Any]:
    values = side["Values"]()
    given, _ = side["describe_answer"](values, 0, {"arguments": [], "keywords": {}}, [], (value, None, ("", "")))
    assert isinstance(given, dict)
    return given


@pytest.mark.parametrize(
    "value",
    [
        {"b": [2], "a": [1]},
        collections.defaultdict(list, {"a": [1], "b": [2]}),
        collections.OrderedDict([("a", [1]), ("b", [2])]),
    ],
    ids=repr,
)
def test_dictionaries_with_the_same_pairs_are_the_same(side: dict[str, Any], value: Any) -> None:
    assert is_as(answer(side, {"a": [1], "b": [2]}), answer(side, value))
    assert is_as(answer(side, ({"b": {}, "a": 1},)), answer(side, ({"a": 1, "b": {}},)))
    assert is_as(answer(side, {"a": 2}), answer(side, collections.Counter("aa")))


@pytest.mark.parametrize(
    "value",
    [{"a": [1]}, {"a": [1], "b": [3]}, {"a": [1], "b": {2}}, {"a": [1], "b": [2, 2]}, {"a": [1], "b": 2}]
    + [{"a": [False], "b": [2]}, {"a": ["1"], "b": [2]}, {"a": [1.5], "b": [2]}, {"b": [1], "a": [2]}]
    + [[], None, 1, ["?"], (("a", [1]), ("b", [2])), collections.deque("ab")],
    ids=repr,
)
def test_other_data_is_another_answer(side: dict[str, Any], value: Any) -> None:
    assert not is_as(answer(side, {"a": [1], "b": [2]}), answer(side, value))
    assert not is_as(answer(side, collections.defaultdict(list, {"a": [1], "b": [2]})), answer(side, value))


@pytest.mark.parametrize(
    "form",
    [
        ["d", 1, 3],
        ["d", 1],
        ["o"],
        ["o", 1, 2],
        ["o", 1, ["new", ["g", "collections", []]], [], None, None, None],
        ["o", 1, ["call", ["g", "collections", "Counter"]], [3], None, None, None],
        ["o", 1, ["call", ["g", "collections", "OrderedDict"]], [], None, None, [[1]]],
        [],
    ],
    ids=repr,
)
def test_what_is_no_form_is_no_data(side: dict[str, Any], form: Any) -> None:
    assert plain_data(form) in (["?"], ["no form"], ["d", 1, []])
    assert not is_as(answer(side, {"a": 1}), {"result": form, "after": None, "error": None, "printed": ""})


def test_an_object_is_no_data() -> None:
    assert plain_data(["o", "0.1", ["new", ["g", "m", "Box"]], [], None, None, None]) == ["?"]


@pytest.mark.parametrize(
    ("own", "alike", "wrong"),
    [
        ([1, "a"], [(1, "a"), collections.deque([1, "a"]), iter([1, "a"])], [("a", 1), {1, "a"}, iter(["a", 1])]),
        ([(1, 2), (3,)], [([1, 2], [3]), [[1, 2], collections.deque([3])]], [[(1, 2), 3], [(1, 2)], [1, 2, 3]]),
        ({(1, 2): [3]}, [{(1, 2): (3,)}], [{(2, 1): [3]}, {(1, 2): [3], 1: 2}]),
        ({1, "b"}, [frozenset({1, "b"}), {True, "b"}], [[1, "b"], {1}, {1, "b", "c"}]),
        (iter([1]), [[1]], [[], [1, 1], iter([2]), None]),
        (1, [True, 1.0], [False, 1.0000000001, "1", None, [1]]),
        (10**20, [float(10**20)], [10**20 + 1, float(10**20) * 1.1]),
        (0.3, [0.1 + 0.2], [0.3001, 0.30000001, "0.3"]),
        (0.0, [0, 0.1 + 0.2 - 0.3, -0.0, False], [1e-9, None, "", 1e-11]),
        (1e-13, [1e-13], [0.0, 2e-13, 0]),
        (10**9, [1e9], [10**9 + 1, 1e9 + 1e-6]),
        (float("nan"), [float("nan")], [0.0, float("inf")]),
    ],
)
def test_what_python_finds_equal_and_sequences_with_the_same_items_are_alike(
    side: dict[str, Any], own: Any, alike: list[Any], wrong: list[Any]
) -> None:
    expected = answer(side, own)
    assert all(is_as(expected, answer(side, value)) for value in alike)
    assert not [value for value in wrong if is_as(expected, answer(side, value))]


def held_out(side: dict[str, Any], function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a call with a list of lists, and the answer of a function to it."""
    values = side["Values"]()
    values.begin()
    argument = [[1], [2]]
    call = {"target": "m:f", "arguments": [values.encode(argument)], "keywords": {}}
    given, _ = side["describe_answer"](values, 0, call, [argument], (function(argument), None, ("", "")))
    return call, given


def test_a_result_that_is_an_argument_has_its_content_after_the_call(side: dict[str, Any]) -> None:
    def reverses(rows: Any) -> Any:
        rows.reverse()
        return rows

    call, own = held_out(side, lambda rows: [list(row) for row in rows])
    same = [lambda rows: rows, list, tuple, lambda rows: [rows[0], [2]], lambda rows: [*rows]]
    other = [lambda rows: rows[0], lambda rows: rows[::-1], lambda rows: [rows[0], rows[0]], reverses]
    for expected in (own, *(held_out(side, function)[1] for function in same)):
        recorded = {**call, "answer": expected}
        assert all(is_same_held_out(recorded, held_out(side, function)[1]) for function in same)
        assert not any(is_same_held_out(recorded, held_out(side, function)[1]) for function in other)
    recorded = {**call, "answer": held_out(side, reverses)[1]}
    assert not any(is_same_held_out(recorded, held_out(side, function)[1]) for function in [*same, *other[:3]])


def test_an_answer_that_names_itself_or_grows_without_end_is_no_data(side: dict[str, Any]) -> None:
    ring = ["l", "0.1", [["r", "0.1"]]]
    bomb: Any = ["l", "0.0", [1]]
    for number in range(1, 60):
        bomb = ["l", f"0.{number}", [bomb, ["r", f"0.{number - 1}"]]]
    for form in (ring, bomb, ["l", [], [1]], ["l", {}, [1]]):
        assert plain_data(form) == ["no form"]
    assert plain_data(["r", "0.9"]) == ["?"] == plain_data(["I", [1], [["g", "builtins", "KeyError"], "x", []]])
