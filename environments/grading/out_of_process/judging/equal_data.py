"""Equality of data in answers to held-out calls, as wide as the equality that a test would use.

Tests judge the answers to their own calls; held-out calls have no test. So the order of a dictionary does not count,
any of Python's kinds of dictionary is a dictionary, and a list, a tuple, a deque and an iterator with the same items
are equal, as are a set and a frozenset. A form that names an object of the arguments has its content after the call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from ..forms import argument_forms, is_plain, renumbered
from ..recorded_calls import Call
from ..values.own_state import NO_FORM
from ..values.places import canonical

MAX_PARTS = 100_000
"""Most parts of an answer in which each object is repeated wherever it is named."""
TOLERANCE = 1e-9
"""Most relative difference of two floats that count as equal."""
NEAR_ZERO = 1e-12
"""Most difference from an expected 0.0: another order of operations leaves a remainder."""
UNKNOWN_SHAPE = (TypeError, ValueError, LookupError, AttributeError)
"""Exceptions of code that reads a form of no known shape: a solution may write anything."""
_DICTIONARIES = ("defaultdict", "OrderedDict", "Counter")


def plain_data(form: Any, objects: Mapping[Any, Any] | None = None) -> Any:
    """Return the part of a form that is compared: plain data without numbers, ``["?"]`` for anything else.

    ``objects`` has the forms of objects that the form may name (see ``objects_in``).
    """
    try:
        data = _Data({**(objects or {}), **objects_in([form])}).of(form)
        return renumbered(data, count(1)) if is_plain(data) else ["?"]
    except (TypeError, ValueError, IndexError, KeyError, RecursionError):  # whatever a solution wrote
        return ["no form"]


def objects_in(forms: Sequence[Any]) -> dict[Any, Any]:
    """Return the containers and objects that forms have in full, by number."""
    numbered: dict[Any, Any] = {}
    open_forms = list(forms)
    while open_forms:
        form = open_forms.pop()
        if not isinstance(form, list) or not form:
            continue
        if form[0] in ("l", "S", "d", "o") and len(form) > 2 and isinstance(form[1], int | str):
            numbered.setdefault(form[1], form)
        open_forms += _held(form)
    return numbered


def _held(form: list[Any]) -> Iterator[Any]:
    """Yield the forms that a form holds."""
    groups = {"t": form[1:2], "F": form[1:2], "I": form[1:2], "l": form[2:3], "S": form[2:3], "o": form[3:6:2]}
    pairs = form[2:3] if form[0] == "d" else form[6:7] if form[0] == "o" else []
    for group in groups.get(form[0], []) if isinstance(form[0], str) else []:
        yield from group if isinstance(group, list) else []
    for group in pairs:
        for pair in group if isinstance(group, list) else []:
            yield from pair if isinstance(pair, list) else []


class _Data:
    """Forms as data, each object in full wherever it is named."""

    def __init__(self, objects: Mapping[Any, Any]) -> None:
        self._objects = objects
        self._parts = 0

    def of(self, form: Any, inside: frozenset[Any] = frozenset()) -> Any:
        """Return a form as data. Raises ValueError for one that holds itself or has too many parts."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ValueError("too many parts")
        if isinstance(form, bool):
            return int(form)
        if not isinstance(form, list) or not form:
            return form
        tag = form[0]
        if tag == "r" and len(form) == 2 and form[1] in self._objects:
            return self.of(self._objects[form[1]], inside)
        if tag in ("l", "S", "d", "o"):
            if form[1] in inside:
                raise ValueError("an object that holds itself")
            inside |= {form[1]}
        if tag in ("t", "l") or tag == "I" and form[2] is None:
            return ["t", [self.of(item, inside) for item in form[2 if tag == "l" else 1]]]
        if tag in ("F", "S"):
            return ["F", sorted((self.of(item, inside) for item in form[-1]), key=canonical)]
        if tag == "d":
            return ["d", form[1], self._sorted_pairs(form[2], inside)]
        return self._object(form, inside) if tag == "o" else form

    def _object(self, form: list[Any], inside: frozenset[Any]) -> Any:
        _, number, (_, maker), arguments, state, items, pairs = form
        if maker[:2] == ["g", "collections"] and maker[2] in _DICTIONARIES:
            is_counter = maker[2] == "Counter" and len(arguments) == 1 and arguments[0][0] == "d"
            return ["d", number, self._sorted_pairs(arguments[0][2] if is_counter else pairs or [], inside)]
        if maker == ["g", "collections", "deque"]:
            return ["t", [self.of(item, inside) for item in items or []]]
        return [*form[:3], [self.of(item, inside) for item in arguments], state, items, pairs]

    def _sorted_pairs(self, pairs: Any, inside: frozenset[Any]) -> list[Any]:
        forms = [[self.of(key, inside), self.of(item, inside)] for key, item in pairs]
        return sorted(forms, key=lambda pair: canonical(pair[0]))


def comparable(call: Call, answer: Any) -> Any:
    """Return the part of an answer that is compared: result, exception, output, and data that changed in place.

    It is None for an answer of another shape. Data that became part of an object counts as unchanged: another solution
    may copy it.
    """
    if not isinstance(answer, dict) or "broken" in answer or not {"result", "after", "error", "printed"} <= set(answer):
        return None
    forms = argument_forms(call)
    after = forms if answer["after"] is None else answer["after"]
    if not isinstance(after, list) or len(after) != len(forms):
        return None
    objects = objects_in(after)
    data = [
        plain_data(now, objects)
        if is_plain(before) and plain_data(now, objects) not in (plain_data(before), NO_FORM)
        else None
        for before, now in zip(forms, after, strict=True)
    ]
    error = answer["error"][:1] if isinstance(answer["error"], list) else answer["error"]
    return {
        "after": data,
        "error": error,
        "printed": answer["printed"],
        "result": plain_data(answer["result"], objects),
    }


def is_same_data(expected: Any, got: Any) -> bool:
    """Return whether two pieces of data are equal in Python, floats within a tolerance."""
    numbers = _number(expected), _number(got)
    if None not in numbers:
        return _is_same_number(*numbers)
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(is_same_data, expected, got))
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(is_same_data(expected[key], got[key]) for key in expected)
    return type(expected) is type(got) and bool(expected == got)


def _number(form: Any) -> int | float | None:
    """Return the number of a form, None for anything else."""
    if isinstance(form, int):
        return int(form)
    if isinstance(form, list) and len(form) == 2 and form[0] in ("i", "f") and isinstance(form[1], str):
        try:
            return int(form[1]) if form[0] == "i" else float(form[1])
        except ValueError:
            return None
    return None


def _is_same_number(expected: Any, got: Any) -> bool:
    if isinstance(expected, float) and isinstance(got, float):
        is_nan = math.isnan(expected) and math.isnan(got)
        remainder = NEAR_ZERO if expected == 0 else 0.0
        return is_nan or math.isclose(expected, got, rel_tol=TOLERANCE, abs_tol=remainder)
    return bool(expected == got)
