"""Calls without the private attributes that a solution keeps in their arguments.

The text of this file is also run inside sandboxes, after that of ``places.py``, on Python 3.8 and later. A solution may
keep a cache, a lock or a counter in an object that it is called with. The next call with this object then differs from
the recorded one, and yet is the same call. So the comparison leaves out attributes that no recorded call or answer has,
in objects of classes that recorded calls or answers do have. What the test itself sets is in its recorded calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from ..values.places import canonical

    Names = Mapping[str, Iterable[str]]
    """The attributes that a record has, by class (``module:name``)."""

_ITEMS = {"t": 1, "F": 1, "l": 2, "S": 2}
_PAIRS = {"d": 2, "D": 1}
_NUMBERED = ("l", "S", "d", "o")


def class_of(form: Any) -> str:
    """Return the class of an object's form as ``module:name``, '' for another form."""
    is_object = isinstance(form, list) and len(form) == 7 and form[0] == "o"
    place = form[2][1] if is_object and isinstance(form[2], list) and len(form[2]) == 2 else None
    if not isinstance(place, list) or len(place) != 3 or place[0] != "g" or form[2][0] not in ("new", "content"):
        return ""
    return f"{place[1]}:{place[2]}"


def attribute_names(forms: Any) -> dict[str, list[str]]:
    """Return the names of attributes in all objects of forms, by class; dicts of forms are searched too."""
    names: dict[str, list[str]] = {}
    remaining = [forms]
    while remaining:
        part = remaining.pop()
        kind = class_of(part)
        if kind:
            names_found = names.setdefault(kind, [])
            names_found += [name for name, _ in _attributes(part[4]) if name not in names_found]
        remaining += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return names


def public_call(call: Mapping[str, Any], recorded_names: Names) -> str:
    """Return a call as text, without attributes that only a solution has and without the order of attributes."""
    forms = [*call["arguments"], *call["keywords"].values()]
    return canonical([call["target"], sorted(call["keywords"]), _Public(forms, recorded_names).forms])


def _attributes(state: Any) -> Iterator[Any]:
    """Yield the pairs of an object's state: of its dict and of its slots."""
    if isinstance(state, list) and state and state[0] == "D":
        yield from state[1]
    elif isinstance(state, list) and state and state[0] == "t":
        for part in state[1]:
            yield from _attributes(part)


class _Public:
    """Forms of one message, rewritten: each object is in full where it is first seen."""

    def __init__(self, forms: list[Any], recorded_names: Names) -> None:
        self.recorded_names = recorded_names
        self.in_full: dict[Any, Any] = {}
        self.written: set[Any] = set()
        for form in forms:
            self._collect(form)
        self.forms = [self.rewritten(form) for form in forms]

    def _collect(self, form: Any) -> None:
        if isinstance(form, list) and form:
            if form[0] in _NUMBERED:
                self.in_full[form[1]] = form
            for part in self._parts(form):
                self._collect(part)

    def _parts(self, form: Any) -> list[Any]:
        tag = form[0]
        if tag in _ITEMS:
            return list(form[_ITEMS[tag]])
        if tag in _PAIRS:
            return [part for pair in form[_PAIRS[tag]] for part in pair]
        if tag == "o":
            return [*form[3], form[4], *(form[5] or []), *(part for pair in form[6] or [] for part in pair)]
        return []

    def rewritten(self, form: Any, kind: str = "") -> Any:
        """Return a form without private attributes; ``kind`` is the class whose state it is."""
        if not isinstance(form, list) or not form:
            return form
        if form[0] == "r":
            form = form if form[1] in self.written else self.in_full.get(form[1], form)
        elif form[0] in _NUMBERED and form[1] in self.written:
            return ["r", form[1]]
        tag = form[0]
        if tag in _NUMBERED:
            self.written.add(form[1])
        if tag in _ITEMS:
            at = _ITEMS[tag]
            items = [self.rewritten(item, kind if tag == "t" else "") for item in form[at]]
            return [*form[:at], sorted(items, key=canonical) if tag in "FS" else items]
        if tag == "d":
            return ["d", form[1], [[self.rewritten(part) for part in pair] for pair in form[2]]]
        if tag == "D":
            pairs = [pair for pair in form[1] if not kind or pair[0] in self.recorded_names[kind]]
            pairs = sorted(pairs, key=lambda pair: canonical(pair[0])) if kind else pairs
            return ["D", [[name, self.rewritten(item)] for name, item in pairs]]
        return self._object(form) if tag == "o" else form

    def _object(self, form: Any) -> Any:
        _, number, maker, arguments, state, items, pairs = form
        kind = class_of(form)
        state = self.rewritten(state, kind if kind in self.recorded_names else "")
        return [
            *("o", number, maker, [self.rewritten(item) for item in arguments]),
            None if kind in self.recorded_names and state == ["D", []] else state,
            None if items is None else [self.rewritten(item) for item in items],
            None if pairs is None else [[self.rewritten(part) for part in pair] for pair in pairs],
        ]
