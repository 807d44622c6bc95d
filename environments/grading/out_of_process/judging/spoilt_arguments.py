"""Spoilt arguments: objects whose data a held-out call changed although it should not.

A solution may add private state to an object, as long as the data that the object held before the call stays: a method
that returns the right result and spoils its object is wrong, even if no test looks at the object again.
"""

from __future__ import annotations

from typing import Any

from ..forms import argument_forms, fields_of, is_plain
from ..recorded_calls import Call
from .equal_data import UNKNOWN_SHAPE, is_same_data, plain_data


def spoilt_attributes(call: Call, answer: Any) -> set[str]:
    """Return the attributes ``place.name`` whose plain data (other than None) a call changed.

    ``place`` is the position of an argument. An answer of no known shape has none.
    """
    after = answer.get("after") if isinstance(answer, dict) else None
    forms = argument_forms(call)
    if not isinstance(after, list) or len(after) != len(forms):
        return set()
    try:
        return {
            f"{place}.{name}"
            for place, (before, now) in enumerate(zip(forms, after, strict=True))
            for name in _spoilt(before, now)
        }
    except UNKNOWN_SHAPE:
        return set()


def _spoilt(before: Any, now: Any) -> list[str]:
    is_object = all(isinstance(form, list) and form[:1] == ["o"] for form in (before, now))
    if not is_object or is_plain(before) or now[1] != before[1]:
        return []
    values = dict(fields_of(now))
    held = [(name, value) for name, value in fields_of(before) if value is not None and is_plain(value)]
    return [
        name for name, value in held if name in values and not is_same_data(plain_data(value), plain_data(values[name]))
    ]
