"""Limits of the trusted side: no answer reaches code, or changes what the solution could not change."""

from __future__ import annotations

import builtins
import collections
import functools
import re
import typing
from typing import Any

import pytest

from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls


class Point:
    """An object of a package, with a method and an attribute."""

    def __init__(self, x: int = 0) -> None:
        self.x = x

    def twice(self) -> int:
        return 2 * self.x

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


HERE = "geometry"
Point.__module__ = HERE
MAKERS = [
    *(("call builtins", "getattr"), ("call functools", "partial"), ("call operator", "attrgetter")),
    *(("call functools", "reduce"), ("call importlib", "import_module"), ("call types", "FunctionType")),
    *(("call builtins", "type"), ("call typing", "cast"), ("call types", "MethodType"), (f"new {HERE}", "Point")),
    *(("live", ""), ("method", "twice"), ("method", "__init__"), ("builtins", "getattr"), ("builtins", "exec")),
    *(("call collections", "defaultdict"), ("collections", "Counter"), ("attribute", "note")),
]


@pytest.fixture
def trusted(side: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the trusted side's values, which know an object of the test as number 1 and its function as number 2."""
    module: Any = type(re)(HERE)
    module.Point = Point
    monkeypatch.setitem(__import__("sys").modules, HERE, module)
    fixed, counted = 5, 0

    def check(value: int) -> bool:
        nonlocal counted
        counted += 1
        return value == fixed

    check.__module__ = "tests.test_any"

    def live(number: Any, original: Any) -> Any:
        return lambda *arguments: arguments

    values = side["Values"](allowed=lambda *place: place in MAKERS, live=live, packages=[HERE])
    values.begin()
    values.encode([Point(3), check])
    values.point, values.check = values.objects[2], values.objects[3]
    return values


def made(number: str, module: str, name: str, *arguments: Any, state: Any = None, pairs: Any = None) -> list[Any]:
    return ["o", number, ["call", ["g", module, name]], list(arguments), state, None, pairs]


LIVE = ["L", "0.1", []]
ATTACKS = {
    "getattr": made("0.2", "builtins", "getattr", LIVE, "__globals__"),
    "getattr as a value": ["g", "builtins", "getattr"],
    "exec as a value": ["g", "builtins", "exec"],
    "attrgetter": made("0.2", "operator", "attrgetter", "__globals__"),
    "reduce": made("0.2", "functools", "reduce", LIVE, ["l", "0.3", [1, 2]]),
    "import": made("0.2", "importlib", "import_module", "os"),
    "a function": made("0.2", "types", "FunctionType", LIVE),
    "a class": made("0.2", "builtins", "type", "X", ["t", []], ["d", "0.3", []]),
    "a function that hands on": made("0.2", "typing", "cast", None, LIVE),
    "method of a function": ["B", "0.2", LIVE, "twice"],
    "special method": ["B", "0.2", ["r", 2], "__init__"],
    "method that no answer had": ["B", "0.2", ["r", 2], "reset"],
    "attribute for a method": ["B", "0.2", ["o", "0.3", ["new", ["g", HERE, "Point"]], [], None, None, None], "x"],
    "own __setstate__": made(
        "0.2", "functools", "partial", LIVE, state=["t", [LIVE, ["t", []], ["D", []], ["D", [["__setstate__", LIVE]]]]]
    ),
    "a method replaced": ["o", 2, ["new", ["g", HERE, "Point"]], [], ["D", [["x", 3], ["twice", LIVE]]], None, None],
    "a new object with a method replaced": [
        *("o", "0.2", ["new", ["g", HERE, "Point"]], [], ["D", [["twice", LIVE]]], None, None),
    ],
    "a name of Python's": ["o", 2, ["new", ["g", HERE, "Point"]], [], ["D", [["__dict__", 3]]], None, None],
    "a description that is no text": [
        "o",
        2,
        ["new", ["g", HERE, "Point"]],
        [],
        ["D", [["__doc__", LIVE]]],
        None,
        None,
    ],
    "state of a function": ["o", 3, ["new", ["g", HERE, "Point"]], [], ["t", [None, ["D", [["x", 1]]]]], None, None],
    "state of a class": ["o", "0.1", ["new", ["g", HERE, "Point"]], [], ["D", [["x", 1]]], None, None],
    "pairs into no dict": ["o", "0.2", ["new", ["g", HERE, "Point"]], [], None, None, [["x", 1]]],
    "items into no list": ["o", "0.2", ["new", ["g", HERE, "Point"]], [], None, [1], None],
    "a number of the tests": ["l", 99, [1]],
    "a new object": ["n", "0.2", ["g", "collections", "Counter"]],
    "a stand-in as a test's function": ["fn", "0.1", "", "", "", None, [], [], []],
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_answer_reaches_no_code(trusted: Any, side: dict[str, Any], name: str) -> None:
    trusted.decode(LIVE)
    point, state = trusted.point, dict(vars(trusted.point))
    with pytest.raises(side["CannotEncode"]):
        trusted.decode(ATTACKS[name])
    assert vars(point) == state and point.twice() == 6


def test_a_stand_in_needs_an_answer_that_held_something_callable(side: dict[str, Any]) -> None:
    values = side["Values"](allowed=lambda *place: place == ("decimal", "Decimal"), live=lambda *_: print)
    with pytest.raises(side["CannotEncode"], match="a function is not expected here"):
        values.decode(LIVE)
    assert side["may_be_live"]([("live", "")]) and side["may_be_live"]([("method", "get")])
    assert side["may_be_live"]([("call functools", "partial")]) and side["may_be_live"]([("textwrap", "dedent")])
    assert not side["may_be_live"]([("decimal", "Decimal"), ("call datetime", "date"), ("builtins", "KeyError")])


def test_only_variables_that_a_test_s_function_sets_change(trusted: Any) -> None:
    names = trusted.check.__code__.co_freevars
    assert sorted(names) == ["counted", "fixed"]
    cells = [[name, [41]] for name in names]
    trusted.decode(["fn", 3, "", "", "", None, cells, [], []])
    held = {name: cell.cell_contents for name, cell in zip(names, trusted.check.__closure__, strict=True)}
    assert held == {"counted": 41, "fixed": 5}


def test_an_object_that_is_known_is_not_made_again_and_changed(side: dict[str, Any]) -> None:
    class Single:
        pass

    single = Single()
    Single.__new__ = lambda *_: single  # type: ignore[assignment,method-assign]
    Single.__module__, Single.__qualname__ = "tests.single", "Single"
    values = side["Values"](allowed=lambda *_: True)
    values.objects[1], values.numbers[id(single)] = single, 1
    with pytest.raises(side["CannotEncode"], match="known as number 1"):
        values._made_here("0.1", single, (["D", [["x", 1]]], None, None))
    assert values._made_here("0.2", single, (None, None, None)) is single


def test_honest_objects_and_methods_arrive(trusted: Any, side: dict[str, Any]) -> None:
    answerer = side["Values"](packages=[HERE])
    answerer.begin("0")
    method = trusted.decode(answerer.encode(Point(4).twice))
    assert method() == 8
    filled = trusted.decode(answerer.encode(collections.defaultdict(None, a=1)))
    assert filled == {"a": 1} and type(filled) is collections.defaultdict
    halved = trusted.decode(made("7.1", "functools", "partial", ["L", "7.2", []]))
    assert type(halved) is functools.partial


def test_a_known_object_of_the_test_is_changed_as_the_solution_changed_it(trusted: Any) -> None:
    state = ["D", [["x", 9], ["__doc__", "nine"]]]
    trusted.decode(["o", 2, ["new", ["g", HERE, "Point"]], [], state, None, None])
    assert trusted.point.twice() == 18 and trusted.point.__doc__ == "nine"


def test_a_bound_method_is_recorded_by_its_name() -> None:
    form = ["B", "0.1", ["o", "0.2", ["new", ["g", "m", "C"]], [], None, None, None], "close"]
    answer = {"result": form, "after": None, "error": None, "printed": ""}
    calls = RecordedCalls([], [], [], {"t": [{"target": "m:f", "arguments": [], "keywords": {}, "answer": answer}]})
    assert calls.allowed() == [("method", "close"), ("new m", "C")]


def test_what_runs_while_an_argument_is_taken_apart_does_not_cross(side: dict[str, Any]) -> None:
    """A generator of a test calls an examined function: the task's own solution would answer into the arguments."""
    job = {"opaque": [], "packages": [], "answers": {"t": []}}
    boundary = side["Boundary"](job)
    boundary.gold("m:f")(lambda value: value + 1)
    boundary.gold("m:g")(sum)
    boundary.start("t")
    with pytest.raises(side["Unanswered"], match="taking an argument apart runs m:f"):
        boundary.call("m:g", ((boundary.call("m:f", (i,), {}) for i in range(3)),), {})
    assert "arguments" not in boundary.calls[0]


def test_the_attacks_reach_something_that_exists() -> None:
    """Names of the attacks above are resolved: a refusal of a name that is nowhere would show nothing."""
    for place, name in MAKERS:
        module = place.rpartition(" ")[2]
        if module not in ("live", "method", "attribute", HERE):
            assert hasattr(__import__(module), name), name
    assert builtins.getattr is getattr and typing.cast is not None
