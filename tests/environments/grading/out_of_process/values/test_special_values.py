"""Matches, flags, iterators and attributes of functions have forms, which allow no name that was not recorded."""

from __future__ import annotations

import collections
import datetime
import io
import re
from typing import Any

import pytest

from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls


class Zone(datetime.tzinfo):
    """A time zone whose class needs arguments that its pickled form does not name."""

    def __init__(self, minutes: int) -> None:
        self.minutes = minutes


@pytest.mark.parametrize(
    "found",
    [
        *(re.search("a(b)?", "xaby"), re.match("x", "xa"), re.fullmatch("(?P<all>.*)", "xa", re.S | re.I)),
        *(re.compile("a").search("aba", 1), list(re.finditer("b+", "abcbb"))[1], re.search(b"a", b"ba")),
    ],
    ids=repr,
)
def test_a_match_arrives_with_its_groups(side: dict[str, Any], found: Any) -> None:
    sender, receiver = side["Values"](), side["Values"]()
    sender.begin()
    (arrived,) = receiver.decode(sender.encode([found]))
    assert arrived.regs == found.regs and arrived.groupdict() == found.groupdict() and arrived.string == found.string


def test_flags_iterators_deques_and_zones_arrive(side: dict[str, Any]) -> None:
    used_up = (x for x in [1])
    list(used_up)
    begun = iter([1, 2, 3])
    next(begun)
    value = [re.I | re.S, used_up, begun, collections.deque([1, 2]), Zone(5)]
    sender, receiver = side["Values"](), side["Values"]()
    sender.begin()
    flags, nothing, rest, queue, zone = receiver.decode(sender.encode(value))
    assert flags is re.I | re.S and list(nothing) == [] and list(rest) == [2, 3] and list(begun) == [2, 3]
    assert queue == collections.deque([1, 2]) and (type(zone).__name__, zone.minutes) == ("Zone", 5)


def test_what_made_a_known_object_is_changed_with_it(side: dict[str, Any]) -> None:
    """A handler holds a bound method of its stream, and the stream alone has changed."""
    stream = io.StringIO()
    caller, answerer = side["Values"](), side["Values"]()
    caller.begin()
    write = stream.write
    given = answerer.decode(caller.encode([write]))
    given[0]("text")
    answerer.begin("0")
    caller.decode(answerer.encode(given))
    assert stream.getvalue() == "text"


def test_an_attribute_that_the_solution_sets_on_a_tests_function_comes_back(side: dict[str, Any]) -> None:
    def convert(text: str) -> int:
        return int(text)

    convert.__module__ = "tests.test_any"
    allowed: set[tuple[str, str]] = set()
    caller = side["Values"](allowed=lambda *place: place in allowed)
    answerer = side["Values"]()
    caller.begin()
    given = answerer.decode(caller.encode([convert]))
    given[0].pattern = "[0-9]+"
    answerer.begin("0")
    form = answerer.encode(given)
    with pytest.raises(side["CannotEncode"], match="attribute pattern"):
        caller.decode(form)
    answer = {"result": form, "after": None, "error": None, "printed": ""}
    calls = RecordedCalls([], [], [], {"t": [{"target": "m:f", "arguments": [], "keywords": {}, "answer": answer}]})
    allowed.update(calls.allowed())
    caller.decode(form)
    assert convert.pattern == "[0-9]+"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "form",
    [
        ["m", "0.1", "sub", ["r", 1], "x", 0, 1],
        ["m", "0.1", "search", ["r", 2], "x", 0, 1],
        ["m", "0.1", "search", ["r", 1], ["r", 2], 0, 1],
        ["m", "0.1", "search", ["r", 1], "b", 0, 1],
        ["m", 2, "search", ["r", 1], "a", 0, 1],
        ["e", "decimal", "Decimal", 3],
        ["e", "re", "RegexFlag", 3],
        ["L", "0.1", [["__wrapped__", None]]],
        ["L", "0.1", [["__signature__", None]]],
        ["L", "0.1", [["__code__", None]]],
        ["fn", 3, "", "", "", None, [], [], [["__test__", False]]],
        ["fn", 2, "", "", "", None, [], [], []],
    ],
)
def test_a_forged_form_is_refused(side: dict[str, Any], form: Any) -> None:
    def convert() -> None: ...

    convert.__module__ = "tests.test_any"
    values = side["Values"](
        allowed=lambda *place: place in {("decimal", "Decimal"), ("attribute", "__original__"), ("live", "")},
        live=lambda *_: print,
    )
    values.begin()
    values.encode([re.compile("a")])
    values.objects.update({1: re.compile("a"), 2: [0], 3: convert})
    with pytest.raises(side["CannotEncode"]):
        values.decode(form)


def test_a_function_of_an_answer_has_the_special_attributes_of_the_tasks_own_solution(side: dict[str, Any]) -> None:
    def function() -> None: ...

    allowed = {("attribute", "__original__"), ("live", "")}
    values = side["Values"](allowed=lambda *place: place in allowed, live=lambda *_: function)
    values.begin()
    assert values.decode(["L", "0.1", [["__original__", 3]]]).__original__ == 3
    with pytest.raises(side["CannotEncode"]):
        values.decode(["L", "0.2", [["__other__", 3]]])


def test_what_a_tests_function_shares_by_name_is_not_taken_from_an_answer(side: dict[str, Any]) -> None:
    def convert() -> None: ...

    values = side["Values"](allowed=lambda *_: False)
    values.begin()
    values.objects[1] = convert
    values.decode(["fn", 1, "", "", "", None, [], [["os", ["g", "os", ""]]], []])
    assert "os" not in convert.__globals__
    with pytest.raises(side["CannotEncode"]):
        values.decode(["fn", 1, "", "", "", None, [["x", [["g", "os", ""]]]], [], []])
