"""A result arrives garbled: its second half is unreadable, and nothing says so."""

from __future__ import annotations

from ..fault import Ask, Fault, Strike

_SHORTEST = 4
_UNREADABLE = "\ufffd"


def _strike(ask: Ask) -> Strike | None:
    return Strike(f"half of the result of {ask.call.name!r} came garbled", result=_garble)


def _garble(content: str) -> str | None:
    status, _, body = content.partition("\n")
    if status != "ok" or len(body) < _SHORTEST:
        return None
    half = len(body) // 2
    return f"{status}\n{body[:half]}{''.join(c if c.isspace() else _UNREADABLE for c in body[half:])}"


FAULT = Fault(_strike)
