"""A call gives nothing within its time; nothing was run, and the same call works afterwards."""

from __future__ import annotations

from ..fault import Ask, Fault, Strike

_SECONDS = 30


def _strike(ask: Ask) -> Strike | None:
    asked = ask.real.arguments.get("timeout_s")
    whole = isinstance(asked, (int, float)) and not isinstance(asked, bool) and 0 < asked < 1e6
    return Strike(f"{ask.call.name!r} timed out once", content=f"timeout {asked if whole else _SECONDS:g}s")


FAULT = Fault(_strike)
