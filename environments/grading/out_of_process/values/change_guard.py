"""Guard against foreign changes: an answer that changes objects which recorded calls of its function leave alone.

The text of this file is also run inside sandboxes, after that of ``trusted_objects.py``, on Python 3.8 and later. An
answer holds objects in full, and so could change the value that a test expects: another object that the test holds, or
a list that it shares with a function. The record shows what calls of a function change: the objects at certain places
of its arguments (``0``, ``0.items``, ``key[]``). An answer may change the objects there, and those that it made. Any
other change is *foreign*. It may be honest, such as a cache, so the test has to pass twice: with the change, and with
each object that is changed in this way left as the test left it.
"""

from __future__ import annotations

import collections
import contextlib
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of those files has defined these names already
    from .own_state import raw_attributes

_OBJECTS = frozenset(("l", "S", "d", "ba", "o", "O", "h", "n", "fn", "L", "r"))
_EMPTY_CELL = types.SimpleNamespace()
"""What an empty cell holds."""


class Guard:
    """Notes the foreign changes of answers in one test.

    ``places`` are the places of arguments that calls may change, by target, ``numbers`` the objects that recorded calls
    of the test change, and ``frozen`` the objects that no answer changes.
    """

    def __init__(self, places: Mapping[str, Sequence[str]], numbers: Collection[Any], frozen: Collection[Any]) -> None:
        self.places = places
        self.numbers = frozenset(numbers)
        self.frozen = frozenset(frozen)
        self.foreign: set[Any] = set()
        self._permitted: set[Any] = set()

    def begin(self, call: Mapping[str, Any]) -> None:
        """Start the answer to a call, whose arguments show which objects may change."""
        recorded = frozenset(self.places.get(call["target"], ()))
        self._permitted = set()
        for place, form in arguments_of(call):
            for inner, number, part in objects_in(form, place):
                if inner in recorded or number in self.numbers or part[0] == "n":
                    self._permitted.add(number)

    def is_permitted(self, number: Any) -> bool:
        """Return whether an answer may change an object: a permitted one, or one in the private state of such."""
        if number in self._permitted:
            return True
        return isinstance(number, str) and any(f".{owner}/" in number for owner in self._permitted)

    @contextlib.contextmanager
    def watched(self, number: Any, value: Any, is_same: Callable[[Any, Any], bool]) -> Iterator[None]:
        """Note whether an object changes in the ``with`` block, and undo the change of a frozen object."""
        if self.is_permitted(number):
            yield
            return
        before = contents(value)
        yield
        now = contents(value)
        if len(before) != len(now) or not all(map(_is_same_part, before, now, [is_same] * len(now))):
            self.foreign.add(number)
            if number in self.frozen:
                _restore(value, before)


def arguments_of(call: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the places and the forms of a call's arguments."""
    return [*((str(i), form) for i, form in enumerate(call["arguments"])), *call["keywords"].items()]


def objects_in(form: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the place, the number and the form of each container and object in a form."""
    if not isinstance(form, list) or not form:
        return
    tag = form[0]
    if tag in _OBJECTS:
        yield place, form[1], form
    for inner, part in inner_forms(form, place):
        yield from objects_in(part, inner)


def with_contents_left_out(call: Mapping[str, Any], numbers: Collection[Any]) -> dict[str, Any]:
    """Return a call whose arguments name the objects with these numbers instead of showing them in full."""

    def named(form: Any) -> Any:
        if not isinstance(form, list):
            return form
        is_object = len(form) > 1 and isinstance(form[0], str) and form[0] in _OBJECTS
        is_named = is_object and isinstance(form[1], (int, str)) and form[1] in numbers
        return ["r", form[1]] if is_named else [named(part) for part in form]

    keywords = {name: named(form) for name, form in call["keywords"].items()}
    return {**call, "arguments": [named(form) for form in call["arguments"]], "keywords": keywords}


def inner_forms(form: Any, place: str) -> list[tuple[str, Any]]:
    """Return the forms that a form holds directly, with their places."""
    tag = form[0]
    if tag in ("t", "F", "I"):
        return [(f"{place}[]", part) for part in form[1]]
    if tag in ("l", "S"):
        return [(f"{place}[]", part) for part in form[2]]
    if tag == "d":
        return [(f"{place}[]", part) for pair in form[2] for part in pair]
    if tag == "D":
        return [(f"{place}.{name}", part) for name, part in form[1]]
    if tag in ("h", "L"):
        return [(f"{place}.{pair[0]}", pair[1]) for pair in form[2] if len(pair) > 1]
    if tag == "B":
        return [(f"{place}()", form[2])]
    if tag == "fn":
        cells = [(f"{place}<{name}>", content[0]) for name, content in form[6] if content]
        return cells + [(f"{place}<{name}>", part) for name, part in [*form[7], *form[8]]]
    if tag == "O":
        attributes = [(f"{place}.{name}", part) for name, part in form[3]]
        items, pairs = form[4] or [], form[5] or []
        return attributes + [(f"{place}[]", part) for part in [*items, *(part for pair in pairs for part in pair)]]
    if tag == "o":
        state = form[4][1] if isinstance(form[4], list) and form[4] and form[4][0] == "t" else [form[4]]
        attributes = [pair for part in state if isinstance(part, list) for pair in inner_forms(part, place)]
        arguments = [(f"{place}()", part) for part in form[3]]
        items, pairs = form[5] or [], form[6] or []
        return (
            arguments + attributes + [(f"{place}[]", p) for p in [*items, *(part for pair in pairs for part in pair)]]
        )
    return []


def contents(value: Any) -> list[Any]:
    """Return what an object holds directly: its items, its pairs and its attributes."""
    if isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or ())  # noqa: B905  of Python 3.10
        return [(), {**vars(value), **{name: _cell_content(cell) for name, cell in cells}}]
    if isinstance(value, dict):
        return [tuple(dict.items(value)), raw_attributes(value)]
    if isinstance(value, set):
        return [(frozenset(set.__iter__(value)),), raw_attributes(value)]
    kind = next((base for base in (list, bytearray, collections.deque) if isinstance(value, base)), None)
    return [tuple(kind.__iter__(value)) if kind else (), raw_attributes(value)]


def _cell_content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY_CELL


def _is_same_part(before: Any, now: Any, is_same: Callable[[Any, Any], bool]) -> bool:
    if isinstance(before, dict):
        return before.keys() == now.keys() and all(is_same(item, now[name]) for name, item in before.items())
    return len(before) == len(now) and all(map(is_same, before, now))


def _restore(value: Any, before: list[Any]) -> None:
    items, attributes = before
    if isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):  # noqa: B905
            if attributes[name] is not _EMPTY_CELL:
                cell.cell_contents = attributes[name]
        vars(value).clear()
        vars(value).update({name: item for name, item in attributes.items() if name not in value.__code__.co_freevars})
        return
    if isinstance(value, list):
        list.__setitem__(value, slice(None), items)
    elif isinstance(value, bytearray):
        bytearray.__setitem__(value, slice(None), bytes(items))
    elif isinstance(value, dict):
        dict.clear(value)
        dict.update(value, items)
    elif isinstance(value, set):
        set.clear(value)
        set.update(value, *items)
    elif isinstance(value, collections.deque):
        collections.deque.clear(value)
        collections.deque.extend(value, items)
    for name in raw_attributes(value).keys() - attributes.keys():
        object.__delattr__(value, name)
    for name, item in attributes.items():
        if raw_attributes(value).get(name, value) is not item:
            object.__setattr__(value, name, item)
