"""Domain of a function: the kinds of data that tests show in its arguments.

Beyond it, solutions differ that are right by all that an agent can know: for upper case where every test has lower
case, for an empty text, for a negative number. So held-out calls stay within the domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..recorded_calls import Call

Places = Mapping[int | str, frozenset[str]]
"""The kinds of data that tests show, by position or name of an argument."""


def shown_domain(calls: Iterable[Call]) -> dict[str, dict[int | str, frozenset[str]]]:
    """Return the kinds of data that calls show in the arguments of each function, by target."""
    domains: dict[str, dict[int | str, frozenset[str]]] = {}
    for call in calls:
        places = domains.setdefault(call["target"], {})
        for place, form in _arguments(call):
            places[place] = places.get(place, frozenset()) | kinds_of(form)
    return domains


def is_shown(call: Call, places: Places) -> bool:
    """Return whether all arguments of a call have only kinds of data that tests show at their places.

    An argument at a place where no test passes one counts as shown.
    """
    return all(place not in places or kinds_of(form) <= places[place] for place, form in _arguments(call))


def _arguments(call: Call) -> Sequence[tuple[int | str, Any]]:
    return [*enumerate(call["arguments"]), *call["keywords"].items()]


def kinds_of(form: Any) -> frozenset[str]:
    """Return the kinds of data in a form: signs of numbers, characters, marks at an end or doubled, emptiness.

    Digits, small letters, capital letters and letters outside ASCII are one kind each, and so is each mark.
    """
    if isinstance(form, bool) or form is None:
        return frozenset()
    if isinstance(form, int):
        return frozenset({"zero" if form == 0 else "negative" if form < 0 else "positive"})
    if isinstance(form, str):
        return _of_text(form)
    if not isinstance(form, list) or not form:
        return frozenset()
    if form[0] == "f":
        return frozenset({"negative float" if form[1].startswith("-") else "float"})
    if form[0] in ("l", "t", "S", "F", "d"):
        items = form[-1]
        parts = [part for item in items for part in (item if form[0] == "d" else [item])]
        inner = frozenset[str]().union(*map(kinds_of, parts))
        return inner if items else frozenset({"no items"})
    if form[0] == "o":
        return frozenset[str]().union(*map(kinds_of, form[3]))
    return frozenset()


def _of_text(text: str) -> frozenset[str]:
    if not text:
        return frozenset({"no text"})
    kinds = {_of_character(character) for character in text}
    kinds |= {f"{mark} first" for mark in text[:1] if not mark.isalnum()}
    kinds |= {f"{mark} last" for mark in text[-1:] if not mark.isalnum()}
    kinds |= {f"{one}{two}" for one, two in zip(text, text[1:], strict=False) if one == two and not one.isalnum()}
    return frozenset(kinds)


def _of_character(character: str) -> str:
    if character.isdigit():
        return "digit"
    if not character.isalpha():
        return character
    return "letter" if not character.isascii() else "capital" if character.isupper() else "small"
