"""Values sent to another process and back are equal, of the same type and identity, and never code."""

from __future__ import annotations

import collections
import datetime
import decimal
import re
import threading
import unittest
from typing import Any

import pytest


def carried(side: dict[str, Any], value: Any, allowed: Any = None) -> Any:
    sender, receiver = side["Values"](), side["Values"](allowed=allowed)
    sender.begin()
    return receiver.decode(sender.encode(value))


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 0, -1, 2**70, 1.5, float("inf"), 2j, "", "\u00e9", "\ud800", b"\x00", (), (1, (2,))),
        *([], [1, [2]], {}, {"a": {1: 2}}, {(1, 2): "x"}, set(), {"a"}, frozenset({1}), bytearray(b"x")),
        *(decimal.Decimal("1.10"), datetime.date(2020, 2, 29), re.compile("a+", re.I), range(3), slice(1, 2)),
        *(collections.OrderedDict([("b", 1), ("a", 2)]), collections.Counter("aab"), collections.defaultdict(int, a=1)),
        *(len, str.upper, int, collections.abc.Mapping, datetime.UTC, ValueError("x", 1)),
    ],
    ids=repr,
)
def test_a_value_arrives_equal_and_of_the_same_type(side: dict[str, Any], value: Any) -> None:
    arrived = carried(side, value)
    assert type(arrived) is type(value)
    assert repr(arrived) == repr(value)


def test_a_value_that_occurs_twice_arrives_as_one(side: dict[str, Any]) -> None:
    inner = [1]
    first, second = carried(side, [inner, inner])
    assert first is second


def test_a_value_that_holds_itself_arrives(side: dict[str, Any]) -> None:
    loop: list[Any] = []
    loop.append(loop)
    arrived = carried(side, loop)
    assert arrived[0] is arrived


def test_a_container_that_was_changed_is_changed_in_place(side: dict[str, Any]) -> None:
    here, there = side["Values"](), side["Values"]()
    mine = {"a": [1]}
    here.begin()
    theirs = there.decode(here.encode(mine))
    theirs["a"].append(2)
    there.begin(answering="0")
    assert here.decode(there.encode(theirs)) is mine
    assert mine == {"a": [1, 2]}


class Slotted:
    __slots__ = ("left", "right")


class Held:
    pass


class Named:
    """Is made again by its constructor: that it has no state says nothing about its attributes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return Named, (self.name,)


def test_what_a_caller_took_from_an_object_is_gone_on_the_other_side(
    side: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(side, "is_of_tests", lambda module: False)
    here, there = side["Values"](), side["Values"]()
    held, slotted, both, named = Held(), Slotted(), Held(), Named("x")
    held.cached = both.kept = both.gone = 1  # type: ignore[attr-defined]
    slotted.left = slotted.right = 2  # type: ignore[attr-defined]
    here.begin()
    arrived = there.decode(here.encode([held, slotted, both, named]))
    del held.cached, both.gone, slotted.left  # type: ignore[attr-defined]
    here.begin()
    assert there.decode(here.encode([held, slotted, both, named])) == arrived
    assert vars(arrived[0]) == {} and vars(arrived[2]) == {"kept": 1} and vars(arrived[3]) == {"name": "x"}
    assert not hasattr(arrived[1], "left") and arrived[1].right == 2
    del slotted.right  # type: ignore[attr-defined]
    here.begin()
    assert not hasattr(there.decode(here.encode(slotted)), "right")


def test_a_function_of_a_test_arrives_with_what_it_shares(side: dict[str, Any]) -> None:
    seen: list[int] = []

    def note(value: int, scale: int = 2) -> int:
        seen.append(value)
        return value * scale

    note.__module__ = "tests.test_any"
    arrived = carried(side, note)
    assert arrived(3) == 6
    assert arrived.__closure__[0].cell_contents == [3] and seen == []


def test_a_class_of_a_test_arrives_with_its_methods(side: dict[str, Any]) -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

        @property
        def twice(self) -> int:
            return 2 * self.x

    Point.__module__ = "tests.test_any"
    for name in ("__init__",):
        getattr(Point, name).__module__ = "tests.test_any"
    assert carried(side, Point(4)).twice == 8


@pytest.mark.parametrize("value", [threading.Lock(), (x for x in [1]), [0] * 30_000], ids=type)
def test_what_cannot_cross_is_refused(side: dict[str, Any], value: Any) -> None:
    with pytest.raises(side["CannotEncode"]):
        carried(side, [value])


@pytest.mark.parametrize(
    "form",
    [
        ["g", "os", "system"],
        ["o", "0.1", ["call", ["g", "os", "system"]], ["true"], None, None, None],
        ["o", "0.1", ["call", ["g", "decimal", "Decimal"]], ["1"], None, None, None],
        ["o", "0.1", ["call", ["r", 1]], ["1"], None, None, None],
        ["o", "0.1", ["new", ["g", "unittest.mock", "_ANY"]], [], None, None, None],
        ["fn", "0.1", "", "f", "m", None, [], []],
        ["k", "0.1", "C", "m", [], []],
        ["L", 1, []],
        ["L", "0.1", [["__eq__", None]]],
        ["h", 1, [["x", 2]]],
        ["d", 1, [["x", 2]]],
        ["o", 1, ["new", ["g", "decimal", "Decimal"]], [], ["D", [["x", 1]]], None, None],
        ["?", 1],
    ],
)
def test_the_trusted_side_takes_no_code_and_no_name_that_was_not_seen(side: dict[str, Any], form: Any) -> None:
    """``Decimal`` may come back as a value, and a list is number 1: neither as anything else."""
    values = side["Values"](allowed=lambda module, name: (module, name) == ("decimal", "Decimal"), live=print)
    values.begin()
    values.encode([0])
    with pytest.raises((side["CannotEncode"], KeyError)):
        values.decode(form)


def test_what_holds_expectations_of_a_test_stays_with_the_test(side: dict[str, Any]) -> None:
    class Case(unittest.TestCase):
        def check(self) -> None:
            self.assertEqual(1, 2)

    def compare(value: int) -> None:
        assert value == 42

    def test_more() -> None:
        return None

    for value in (Case, compare, test_more):
        value.__module__ = "tests.test_any"
        with pytest.raises(side["CannotEncode"], match="expect"):
            carried(side, value)


def test_an_argument_that_is_the_default_itself_is_left_out(side: dict[str, Any]) -> None:
    missing = object()

    def get(key: str, default: Any = missing, *, strict: bool = False, limit: int = 3) -> None: ...

    assert side["without_defaults"](get, ("a", missing), {"strict": False, "limit": 4}) == (("a",), {"limit": 4})
    assert side["without_defaults"](get, ("a", 1), {}) == (("a", 1), {})
