"""JSON whose strings hold text with escapes: notebooks, tool caches, source maps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

kind = "json"
also_text = True


def matches(name: str, data: bytes) -> bool:
    return data.lstrip()[:1] in (b"{", b"[") and b"\\" in data and data.rstrip()[-1:] in (b"}", b"]")


def parts(data: bytes, limit: int) -> Iterator[tuple[str, bytes]]:
    try:
        strings = list(_strings(json.loads(data)))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    # Without separators between list items: a notebook's cell is a list of lines.
    yield "", "\n".join(strings).encode("utf-8", "replace")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
