"""The fault ``garbled``."""

from __future__ import annotations

from ..fault import Strike, Target

_SHORTEST = 4
_UNREADABLE = "\ufffd"


def strike(target: Target) -> Strike | None:
    """Make the second half of a result unreadable, without saying so."""
    return Strike(f"half of the result of {target.call.name!r} came garbled", result=_garble)


def _garble(content: str) -> str | None:
    status, _, body = content.partition("\n")
    if status != "ok" or len(body) < _SHORTEST:
        return None
    half = len(body) // 2
    return f"{status}\n{body[:half]}{''.join(c if c.isspace() else _UNREADABLE for c in body[half:])}"
