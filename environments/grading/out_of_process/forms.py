"""Questions that the host asks about forms (see ``values/encoding.py``) and about the arguments of calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .recorded_calls import Call

_PLAIN = frozenset("ifcsbtlSFdo")


def is_plain(form: Any) -> bool:
    """Return whether a form is data alone: no function or iterator, and no container that occurs twice.

    An object is data that is made of plain data and has no state besides, such as a date or a named tuple.
    """
    if not isinstance(form, list):
        return True
    if form[0] in ("i", "f", "c", "s", "b", "e"):
        return True
    if form[0] == "o" and (form[2][1][0] != "g" or not form[3] or form[4:] != [None, None, None]):
        return False
    return form[0] in _PLAIN and all(map(is_plain, _parts(form)))


def _parts(form: list[Any]) -> Iterator[Any]:
    for part in form[3] if form[0] == "o" else form[-1]:
        yield from part if form[0] == "d" else [part]


def is_whole(form: Any) -> bool:
    """Return whether a form holds its objects with all their state, so that no earlier call has to make them."""
    if is_plain(form) or form[0] == "g":
        return True
    if form[0] == "o":
        return all(
            map(is_whole, [*form[3], form[4], *(form[5] or []), *(part for pair in form[6] or [] for part in pair)])
        )
    return form[0] in ("l", "S", "t", "F", "d", "D") and all(
        is_whole(part) for item in form[-1] for part in (item if form[0] in ("d", "D") else [item])
    )


def is_object(form: Any) -> bool:
    """Return whether a form is an object with its whole state that is not plain data."""
    return isinstance(form, list) and form[0] == "o" and not is_plain(form) and is_whole(form)


def fields_of(form: Any) -> list[list[Any]]:
    """Return the attributes in an object's form as pairs of name and form; none where its state has no names."""
    return next(_named_states(form[4]), [])


def _named_states(state: Any) -> Iterator[list[list[Any]]]:
    if isinstance(state, list) and state[0] == "D" and all(isinstance(pair[0], str) for pair in state[1]):
        yield state[1]
    elif isinstance(state, list) and state[0] == "t" and len(state[1]) == 2 and state[1][0] is None:  # of slots
        yield from _named_states(state[1][1])


def type_of(form: Any) -> Any:
    """Return a form's kind of value: the maker of an object, the tag of another list, or the name of a plain type."""
    if isinstance(form, list):
        return form[2] if form[0] == "o" else form[0]
    return type(form).__name__


def argument_forms(call: Mapping[str, Any]) -> list[Any]:
    """Return the forms of all arguments of a call: positional ones, then those with a keyword."""
    return [*call["arguments"], *call["keywords"].values()]


def renumbered(form: Any, numbers: Iterator[int]) -> Any:
    """Return a form whose containers and objects are numbered again, with the next of the ``numbers``."""
    if not isinstance(form, list):
        return form
    tag = form[0]
    if tag in ("t", "F"):
        return [tag, [renumbered(item, numbers) for item in form[1]]]
    if tag in ("l", "S"):
        return [tag, next(numbers), [renumbered(item, numbers) for item in form[2]]]
    if tag in ("d", "D"):
        pairs = [[renumbered(key, numbers), renumbered(value, numbers)] for key, value in form[-1]]
        return [tag, next(numbers), pairs] if tag == "d" else [tag, pairs]
    if tag == "o":
        _, _, maker, arguments, state, items, pairs = form
        number = next(numbers)
        return [
            *("o", number, maker, [renumbered(item, numbers) for item in arguments], renumbered(state, numbers)),
            None if items is None else [renumbered(item, numbers) for item in items],
            None if pairs is None else [[renumbered(part, numbers) for part in pair] for pair in pairs],
        ]
    return form


def has(call: Call, place: int | str) -> bool:
    """Return whether a call has an argument at a place: a position or a name."""
    return place < len(call["arguments"]) if isinstance(place, int) else place in call["keywords"]


def at(call: Call, place: int | str) -> Any:
    """Return a call's argument at a place."""
    return call["arguments"][place] if isinstance(place, int) else call["keywords"][place]
