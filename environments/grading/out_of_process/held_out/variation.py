"""Variation of plain data: other content in the same shape, and shapes a little beyond those in the tests.

The values are forms (see ``values/encoding.py``). The caller numbers their containers again.
"""

from __future__ import annotations

import base64
import datetime
import random
import re
import string
from collections.abc import Callable, Sequence
from typing import Any

_DATES: dict[str, Any] = {"date": datetime.date, "datetime": datetime.datetime, "time": datetime.time}
_NUMBER_TEXTS = {("decimal", "Decimal"), ("fractions", "Fraction")}
_MARKS = r"([^0-9A-Za-z]+)"
_CORE = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+/:-]*")
_FIXED = {"re", "builtins", "operator", "functools"}
"""Modules whose functions make objects that are not varied, such as patterns and ranges."""


def varied(form: Any, others: Sequence[Any], choice: random.Random) -> Any:
    """Return a form of the same type and shape with other content."""
    if isinstance(form, bool) or form is None:
        return form
    if isinstance(form, int):
        observed = [item for item in others if type(item) is int]
        return choice.randint(min(observed), max(observed)) if observed else form
    if isinstance(form, str):
        marks = [mark for item in others if isinstance(item, str) for mark in item if _is_mark(mark)]
        return _varied_text(form, marks, choice)
    tag = form[0]
    if tag == "f":
        finite = _floats(others)
        return ["f", repr(round(choice.uniform(min(finite), max(finite)), 4))] if finite else form
    if tag == "b":
        return _encoded(bytes(_other_byte(code, choice) for code in base64.b64decode(form[1])))
    if tag in ("l", "t"):
        items = list(form[-1])
        items_varied = [varied(item, items, choice) if choice.random() < 0.5 else item for item in items]
        if tag == "l" and choice.random() < 0.5:
            choice.shuffle(items_varied)
        return [*form[:-1], items_varied]
    if tag == "d":
        values = [item for _, item in form[2]]
        pairs = [[key, varied(item, values, choice) if choice.random() < 0.5 else item] for key, item in form[2]]
        return [tag, form[1], pairs]
    return _varied_object(form, others, choice, varied) if tag == "o" else form


def stretched(form: Any, others: Sequence[Any], choice: random.Random) -> Any:
    """Return a form of the same type a little beyond ``others``: other lengths, numbers outside their range."""
    if isinstance(form, bool) or form is None:
        return form
    if isinstance(form, int):
        observed = [item for item in others if type(item) is int] or [form]
        return choice.choice([min(observed) - 1, max(observed) + 1, 0, -form])
    if isinstance(form, str):
        return _stretched_text(form, [item for item in others if isinstance(item, str)], choice)
    tag = form[0]
    if tag == "f":
        finite = _floats(others) or [1.0]
        return ["f", repr(choice.choice([min(finite) - 1, max(finite) + 1, 0.0, -float(form[1])]))]
    if tag == "b":
        return _encoded(bytes(_resized(list(base64.b64decode(form[1])), choice)))
    if tag in ("l", "d"):
        return [*form[:-1], _resized(list(form[-1]), choice)]
    if tag == "t":
        items = list(form[-1])
        return [tag, [stretched(item, items, choice) if choice.random() < 0.5 else item for item in items]]
    return _varied_object(form, others, choice, stretched) if tag == "o" else form


def nearly(form: Any, choice: random.Random) -> Any:
    """Return a form that differs in one place: one character, one item, or the next number."""
    if type(form) is int:
        return form + choice.choice([-1, 1])
    if isinstance(form, str) and form:
        place = choice.randrange(len(form))
        other = choice.choice([_other(form[place], [], choice), form[place] * 2, form[place].swapcase(), ""])
        return form[:place] + other + form[place + 1 :]
    if isinstance(form, list) and form[0] in ("l", "t", "d") and form[-1]:
        items = list(form[-1])
        place, last = choice.randrange(len(items)), len(items) - 1
        if form[0] == "d":
            changed = [items[place][0], nearly(items[place][1], choice)]
            return [*form[:-1], [*items[:place], *choice.choice([[], [changed]]), *items[place + 1 :]]]
        items[place] = nearly(items[place], choice)
        if form[0] == "l":
            place = min(place, last - 1) if last else place
            swapped = [*form[-1][:place], *reversed(form[-1][place : place + 2]), *form[-1][place + 2 :]]
            items = choice.choice([items, [*form[-1][:place], *form[-1][place + 1 :]], swapped])
        return [*form[:-1], items]
    return form


def _floats(others: Sequence[Any]) -> list[float]:
    values = [float(item[1]) for item in others if isinstance(item, list) and item[0] == "f"]
    return [value for value in values if abs(value) < 1e300]


def _encoded(content: bytes) -> Any:
    return ["b", base64.b64encode(content).decode()]


def _is_mark(character: str) -> bool:
    """Return whether a character is neither a letter, a digit nor a control character."""
    return not character.isalnum() and character.isprintable()


def _varied_text(text: str, marks: Sequence[str], choice: random.Random) -> str:
    """Return a text in which all characters, or one or two of them, are replaced by others of the same kind.

    A text with one other character refutes a solution that looks at the wrong place.
    """
    characters = list(text)
    few = choice.sample(range(len(text)), min(len(text), choice.choice([1, 2])))
    for place in few if choice.random() < 0.5 else range(len(text)):
        characters[place] = _other(characters[place], marks, choice)
    return "".join(characters)


def _other(character: str, marks: Sequence[str], choice: random.Random) -> str:
    """Return another letter or digit of the same kind; in place of any other character, one of ``marks`` or itself."""
    for group in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
        if character in group:
            return choice.choice(group)
    return choice.choice(marks) if marks and _is_mark(character) and choice.random() < 0.5 else character


def _other_byte(code: int, choice: random.Random) -> int:
    if 32 <= code < 127:
        return ord(_other(chr(code), [], choice))
    return choice.randrange(128, 256) if code >= 128 and choice.random() < 0.5 else code


def _stretched_text(text: str, others: Sequence[str], choice: random.Random) -> str:
    """Return a text of another length, in other letters, or with a part of another text."""
    other = choice.choice(others) if others else text
    place = choice.randrange(len(text)) if text else 0
    parts, other_parts = (re.split(_MARKS, item) for item in (text, other))
    changed = list(parts)
    marks = range(1, len(other_parts), 2)
    suffix = "".join(other_parts[choice.choice(marks) :]) if marks else other
    changed[choice.randrange(len(parts))] = choice.choice(other_parts)
    return choice.choice(
        [
            text[:place] + text[place + 1 :],
            text[: place + 1] + text[place:],
            text + other,
            "",
            text.swapcase(),
            text[:place].upper() + text[place:].lower(),
            choice.choice([" ", "\t"]) + text + " ",
            "".join(changed),
            text + suffix,
            "".join(parts[: choice.randrange(len(parts) + 1)]) + suffix,
            parts[0],
            _CORE.sub(lambda _: other, text, count=1),
            *4 * [text + _aligned_end(text, other)],
        ]
    )


def _aligned_end(text: str, other: str) -> str:
    """Return the parts of another text after as many parts as a text has, if both have the same marks until there."""
    core, candidate = _CORE.search(text), _CORE.search(other)
    if core is None or candidate is None:
        return ""
    parts, other_parts = re.split(_MARKS, core[0]), re.split(_MARKS, candidate[0])
    is_alike = parts[1::2] == other_parts[1 : len(parts) : 2]
    return "".join(other_parts[len(parts) :]) if is_alike else ""


def _resized(items: list[Any], choice: random.Random) -> list[Any]:
    """Return items with one removed or doubled, all in another order, or none of them."""
    if not items:
        return items
    place, kind = choice.randrange(len(items)), choice.random()
    if kind < 0.4:
        return items[:place] + items[place + 1 :]
    if kind < 0.7:
        return items[: place + 1] + items[place:]
    if kind < 0.9:
        return choice.sample(items, len(items))
    return []


def _varied_object(form: Any, others: Sequence[Any], choice: random.Random, vary: Callable[..., Any]) -> Any:
    """Return an object whose maker takes plain values, with other such values."""
    _, number, maker, arguments, *remaining = form
    place = tuple(maker[1][1:])
    same = [item for item in others if isinstance(item, list) and item[0] == "o" and item[2] == maker]
    if place[0] == "datetime" and place[1] in _DATES:
        changed = _other_date(place[1], arguments, same, choice, 0 if vary is varied else 1)
    elif place in _NUMBER_TEXTS and arguments and isinstance(arguments[0], str):
        text = "".join(_other(character, [], choice) for character in arguments[0])
        changed = [text if vary is varied else choice.choice(["0", "-" + text.lstrip("-"), text + "0"])]
    elif place[0] in _FIXED:
        changed = arguments
    elif maker[0] == "content":  # its constructor could not check other values
        changed = choice.choice([item[3] for item in same] or [arguments])
    else:
        columns = [[item[3][i] for item in same if i < len(item[3])] for i in range(len(arguments))]
        changed = [
            vary(item, column, choice) if choice.random() < 0.5 else item
            for item, column in zip(arguments, columns, strict=True)
        ]
    return ["o", number, maker, changed, *remaining]


def _other_date(name: str, arguments: Any, same: Sequence[Any], choice: random.Random, beyond: int) -> list[Any]:
    """Return the arguments of a date or time within the range of ``same``, or a little ``beyond`` it."""
    kind = _DATES[name]
    try:
        observed = [kind(base64.b64decode(item[3][0][1])) for item in same]
        if name == "time":
            start = datetime.datetime.combine(datetime.date(2000, 1, 1), choice.choice(observed))
            step = datetime.timedelta(seconds=choice.randint(0, 86_399), microseconds=beyond)
            new: Any = (start + step).time()
        else:
            start, end = min(observed), max(observed)
            span = int((end - start).total_seconds())
            new = start + datetime.timedelta(seconds=choice.randint(0, max(span, 1)))
            if beyond:
                step = datetime.timedelta(days=choice.choice([1, 28, 366]))
                new = choice.choice([start - step, end + step])
    except (ValueError, TypeError, IndexError, OverflowError):
        return list(arguments)
    return [_encoded(new.__reduce__()[1][0]), *arguments[1:]]
