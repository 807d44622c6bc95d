"""A tokenizer's marks in texts: text that merely looks like one is kept apart, so that it is never tokenised as one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_SPLIT = "\U000fffff"  # no character: inside a mark it makes it a text; where a text holds it, there are two
_SPLITS = re.compile(f"(?<!{_SPLIT}){_SPLIT}(?!{_SPLIT})")


def any_of(marks: Iterable[str | None]) -> re.Pattern[str]:
    """The longest of these, wherever one stands."""
    longest = sorted(filter(None, marks), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest)) or r"(?!)")


def kept_apart(text: str, marks: re.Pattern[str] | None = None) -> str:
    """A text for ``pieces``, in which these marks are none."""
    text = text.replace(_SPLIT, _SPLIT * 2)
    return text if marks is None else marks.sub(lambda mark: mark[0][0] + _SPLIT + mark[0][1:], text)


def pieces(text: str) -> list[str]:
    """To be tokenised one by one."""
    return [piece.replace(_SPLIT * 2, _SPLIT) for piece in _SPLITS.split(text)]


def changed(value: Any, change: Callable[[str], str]) -> Any:
    """Every text of any JSON; only names that are identifiers, such as "role", stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [changed(each, change) for each in value]
    if isinstance(value, Mapping):
        return {name if name.isidentifier() else change(name): changed(each, change) for name, each in value.items()}
    return value
