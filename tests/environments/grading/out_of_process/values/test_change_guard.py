"""Changes in answers: damage that a class would repair, and objects that recorded calls leave alone."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.recorded_tasks import HIDDEN, grade_of, task_with, with_record, without_held_out

from etude.environments.grading.out_of_process.judging.recorded_changes import (
    recorded_changes,
    stable_names,
    with_names,
)
from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.snapshots import Snapshot
from etude.models import Grade, Task

HEAD = """class Shelf:
    def __init__(self, items=()):
        self.items, self.places = [], {}
        for item in items:
            self.places[item] = len(self.items)
            self.items.append(item)

    def __contains__(self, item):
        return item in self.places

    def __getstate__(self):
        return list(self.items) or (None,)

    def __setstate__(self, state):
        self.__init__(() if state == (None,) else state)


class Report:
    def __init__(self, expected):
        self.expected = expected
        self.notes = []


def largest(values):
    return max(values)


total = largest


def remove(shelf, item):
"""
OWN_REMOVE = """    if item in shelf:
        del shelf.items[shelf.places.pop(item)]
        for place, other in enumerate(shelf.items):
            shelf.places[other] = place
"""
OWN_SUMS = """

def sums(values, report):
    return [sum(values), len(values)]
"""
HIDDEN_TESTS = """import pytest

from tally.core import Report, Shelf, remove, sums


@pytest.mark.parametrize("n", range(6))
def test_remove(n):
    shelf = Shelf([n, n + 1, n + 2])
    remove(shelf, n)
    assert n not in shelf and n + 1 in shelf and shelf.places[n + 2] == 1
    remove(shelf, n + 2)
    assert shelf.items == [n + 1] == list(shelf.places)


@pytest.mark.parametrize("n", range(6))
def test_sums(n):
    report = Report([n + 3, 3])
    assert sums([2, n, 1], report) == report.expected
"""
FORGED = """

import sys

if "pytest" in sys.modules:
    import _pytest.python as p

    p.Function.runtest = lambda self: None
"""
HONEST = {
    "another way": (
        "    kept = [other for other in shelf.items if other != item]\n    shelf.items[:] = kept\n"
        "    shelf.places = {other: kept.index(other) for other in reversed(kept)}\n",
        OWN_SUMS.replace("[sum(values), len(values)]", "list((sum(values), len(values)))"),
    ),
    "private attribute": (
        OWN_REMOVE + "    shelf._removed = item\n",
        OWN_SUMS.replace("    ret", "    report.n = 1\n    ret"),
    ),
    "a list that no test looks at": (
        OWN_REMOVE,
        OWN_SUMS.replace("    return", "    report.notes.append(values)\n    return"),
    ),
}
WRONG = {
    "stale places": ("    if item in shelf:\n        shelf.items.remove(item)\n", OWN_SUMS + FORGED),
    "an attribute is lost": (OWN_REMOVE + "    del shelf.places\n", OWN_SUMS + FORGED),
    "what the test expects is changed": (
        OWN_REMOVE,
        OWN_SUMS.replace("    return", "    report.expected[:] = [0]\n    return [0]\n    return"),
    ),
    "what the test expects is replaced": (
        OWN_REMOVE,
        OWN_SUMS.replace("    return", "    report.expected = [0]\n    return report.expected\n    return"),
    ),
}


def source(remove: str, sums: str) -> bytes:
    return (HEAD + remove + sums).encode()


@pytest.fixture(scope="module")
def other_task(task: Task, snapshot: Snapshot) -> Task:
    body = "    raise NotImplementedError\n"
    exercise, solved = source(body, "\n\ndef sums(values, report):\n" + body), source(OWN_REMOVE, OWN_SUMS)
    failing = [f"{HIDDEN}::test_{name}[{n}]" for name in ("remove", "sums") for n in range(6)]
    return task_with(task, snapshot, "tally-shelf", exercise, solved, HIDDEN_TESTS, failing)


@pytest.fixture(scope="module")
def examined(other_task: Task, snapshot: Snapshot) -> Task:
    """Return the task with its record, without held-out calls: the tests alone decide."""
    return without_held_out(with_record(other_task, snapshot))


def graded(task: Task, parts: tuple[str, str]) -> Grade:
    return grade_of(task, source(*parts))


def test_the_record_says_what_calls_change_and_carries_plain_attributes(examined: Task) -> None:
    recorded = RecordedCalls.unpack(examined.pytest.behaviour)
    assert set(recorded.tests) == set(examined.FAIL_TO_PASS)
    assert recorded.own_state == {"tally.core:Shelf": ["items", "places"]}
    assert recorded_changes(recorded)["places"] == {"tally.core:remove": ["0"]}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_solution_scores_one(examined: Task, name: str) -> None:
    result = graded(examined, HONEST[name])
    assert result.failures == [] and result.reward.value == 1.0


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_solution_scores_zero(examined: Task, other_task: Task, name: str) -> None:
    assert graded(other_task, WRONG[name]).reward.components["fail_to_pass"] == 1.0
    result = graded(examined, WRONG[name])
    assert result.reward.value == 0.0 == result.reward.components["behaviour"]


def guarded(side: dict[str, Any], call: dict[str, Any], frozen: Any = ()) -> Any:
    """Return trusted values that know two lists, a dict and a function of a test, while a call is answered."""
    shared: list[Any] = [7]

    def kept() -> Any:
        return shared

    kept.__module__ = "tests.test_any"
    values = side["Values"](allowed=lambda *_: False)
    values.begin()
    values.known = [[1], {"a": 1}, kept, [5]]
    for item in values.known:
        values.encode(item)
    values.guard = side["Guard"]({"m:f": ["0"]}, [], frozen)
    values.guard.begin(call)
    values.begin()
    return values


CALL = {"target": "m:f", "arguments": [["l", 1, [1]], ["d", 2, [["a", 1]]]], "keywords": {}}
FOREIGN = {
    "a dict that is left alone": (["d", 2, [["a", 2]]], 2),
    "another list": (["t", [["l", 5, [6]]]], 5),
    "a list that a function shares": (["fn", 3, "", "", "", None, [["shared", [["l", 4, [8]]]]], [], []], 4),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_change_of_what_the_recorded_calls_leave_alone_is_noted_and_undone(side: dict[str, Any], name: str) -> None:
    form, number = FOREIGN[name]
    values = guarded(side, CALL)
    values.decode(form)
    assert values.guard.foreign == {number}
    values = guarded(side, CALL, [number])
    held = values.texts([values.objects[number]])
    values.decode(form)
    assert values.guard.foreign == {number} and values.texts([values.objects[number]]) == held


@pytest.mark.parametrize(
    "form",
    [
        ["l", 1, [9, ["l", "0.1", [1]]]],
        ["d", 2, [["a", 1]]],
        ["fn", 3, "", "", "", None, [["shared", [["l", 4, [7]]]]], [], []],
        ["l", "0.2", [["l", "0.3", [1]], ["l", "0.3", [2]]]],
    ],
)
def test_what_recorded_calls_change_what_is_new_and_what_stays_the_same_is_not_noted(
    side: dict[str, Any], form: Any
) -> None:
    values = guarded(side, CALL)
    values.decode(form)
    assert values.guard.foreign == set()


def test_an_object_that_its_class_hands_out_again_is_one_that_the_test_may_hold(side: dict[str, Any]) -> None:
    class Colour:
        known: dict[str, Any] = {}

        def __new__(cls, name: str) -> Any:
            return cls.known.setdefault(name, object.__new__(cls))

    Colour.__module__, Colour.__qualname__ = "colours", "Colour"
    module: Any = type(pytest)("colours")
    module.Colour = Colour
    red: Any = Colour("red")
    red.code = 1
    values = guarded(side, CALL)
    values.allowed = lambda *_: True
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "colours", module)
        for code, foreign in ((1, set()), (2, {"0.1"})):
            values.decode(
                ["o", "0.1", ["new", ["g", "colours", "Colour"]], ["red"], ["D", [["code", code]]], None, None]
            )
            assert values.guard.foreign == foreign


def test_an_answer_carries_only_attributes_that_are_plain_and_steady() -> None:
    def answers(*entries: Any) -> dict[str, list[Any]]:
        return {"0": [{"result": None, "raw": [list(entry) for entry in entries]}]}

    first = answers((1, "m:C", {"a": 1, "b": ["?"], "c": 2, "d": ["r", 1]}), (2, "m:D", {"x": ["?"]}))
    again = answers((1, "m:C", {"a": 1, "b": ["?"], "c": 3, "d": ["r", 1], "e": 4}), (2, "m:D", {"x": ["?"]}))
    assert stable_names([first, again]) == {"m:C": ["a"]}
    assert with_names(first["0"][0], {"m:C": ["a"]}) == {"result": None, "raw": [[1, "m:C", {"a": 1}]]}
    for odd in (None, 3, [], [3], [[1, ["m"], {}]], [[1, "m:C", 3]]):
        assert with_names({"result": 1, "raw": odd}, {"m:C": ["a"]}) == {"result": 1}
