"""The fault ``truncated``."""

from __future__ import annotations

from ....hints.transcript.status_line import dropped_mark
from ..fault import Strike, Target

_SHORTEST = 4


def strike(target: Target) -> Strike | None:
    """Drop the second half of a result; a line in its place says how much is missing."""
    return Strike(f"half of the result of {target.call.name!r} was lost: it came truncated", result=_cut)


def _cut(content: str) -> str | None:
    status, _, body = content.partition("\n")
    if status != "ok" or len(body) < _SHORTEST:
        return None
    half = len(body) // 2
    return f"{status}\n{body[:half]}\n{dropped_mark(len(body[half:].encode('utf-8', 'replace')))}"
