"""Half of a result is lost on the way; where the rest was, a line says how much is missing."""

from __future__ import annotations

from ....hints.transcript.status_line import dropped_mark
from ..fault import Ask, Fault, Strike

_SHORTEST = 4


def _strike(ask: Ask) -> Strike | None:
    return Strike(f"half of the result of {ask.call.name!r} was lost: it came truncated", result=_cut)


def _cut(content: str) -> str | None:
    status, _, body = content.partition("\n")
    if status != "ok" or len(body) < _SHORTEST:
        return None
    half = len(body) // 2
    return f"{status}\n{body[:half]}\n{dropped_mark(len(body[half:].encode('utf-8', 'replace')))}"


FAULT = Fault(_strike)
