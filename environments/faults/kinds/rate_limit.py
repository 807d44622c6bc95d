"""A tool takes no call for a moment; the same call works afterwards."""

from __future__ import annotations

from ..fault import Ask, Fault, Strike

_ANSWER = "error transport_error: rate limit: too many calls, try again"


def _strike(ask: Ask) -> Strike | None:
    return Strike(
        f"{ask.call.name!r} took no call for a moment",
        content=_ANSWER,
    )


FAULT = Fault(_strike)
