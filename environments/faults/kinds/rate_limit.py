"""The fault ``rate_limit``."""

from __future__ import annotations

from ..fault import Strike, Target


def strike(target: Target) -> Strike | None:
    """Refuse one call for a rate limit; the same call works afterwards."""
    return Strike(
        f"{target.call.name!r} took no call for a moment",
        content="error transport_error: rate limit: too many calls, try again",
    )
