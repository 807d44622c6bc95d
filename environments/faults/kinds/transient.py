"""The fault ``transient``."""

from __future__ import annotations

from ..fault import Strike, Target


def strike(target: Target) -> Strike | None:
    """Break the connection to a tool once, before the call is run; the same call works afterwards."""
    return Strike(
        f"the connection to {target.call.name!r} broke once",
        content="error transport_error: connection reset by the tool server",
    )
