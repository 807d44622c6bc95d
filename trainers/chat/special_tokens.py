"""Protection of text that looks like a special token, so that it is never tokenised as one.

A file or a tool's output may contain ``<|im_end|>``. ``protect`` puts a separator inside such text, and
``split_protected`` cuts the rendered dialogue there: tokenised piece by piece, the text stays text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_SEPARATOR = "\U000fffff"  # not an assigned character; one that a text already holds is doubled
_SINGLE_SEPARATOR = re.compile(f"(?<!{_SEPARATOR}){_SEPARATOR}(?!{_SEPARATOR})")


def token_pattern(tokens: Iterable[str | None]) -> re.Pattern[str]:
    """Return a pattern that finds any of these tokens, the longest first; without tokens it finds nothing."""
    longest_first = sorted(filter(None, tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def protect(text: str, tokens: re.Pattern[str] | None = None) -> str:
    """Return a text for ``split_protected`` in which the given tokens are ordinary text."""
    text = text.replace(_SEPARATOR, _SEPARATOR * 2)
    return text if tokens is None else tokens.sub(lambda match: match[0][0] + _SEPARATOR + match[0][1:], text)


def split_protected(text: str) -> list[str]:
    """Split a protected text into pieces that are to be tokenised one by one."""
    return [piece.replace(_SEPARATOR * 2, _SEPARATOR) for piece in _SINGLE_SEPARATOR.split(text)]


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Apply ``change`` to every text of a JSON value; keys that are identifiers, such as "role", stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [map_texts(item, change) for item in value]
    if isinstance(value, Mapping):
        return {key if key.isidentifier() else change(key): map_texts(item, change) for key, item in value.items()}
    return value
