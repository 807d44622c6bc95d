"""Held-out answers are the same where Python finds them equal and of the same types."""

from __future__ import annotations

import collections
from typing import Any

import pytest

from etude.environments.grading.out_of_process.answers import is_as
from etude.environments.grading.out_of_process.equal_data import plain_data
from etude.environments.grading.out_of_process.recorded_calls import boundary_parts


@pytest.fixture(scope="module")
def side() -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "side"}
    for part in boundary_parts():
        exec(compile(part, "<side>", "exec"), scope)
    return scope


def answer(side: dict[str, Any], value: Any) -> dict[str, Any]:
    values = side["Values"]()
    given, _ = side["describe_answer"](values, 0, {"arguments": [], "keywords": {}}, [], (value, None, ""))
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
    [{"a": [1]}, {"a": [1], "b": [3]}, {"a": [1], "b": (2,)}, {"a": [True], "b": [2]}, [], None, 1, ["?"]],
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
