"""The fault ``permission``."""

from __future__ import annotations

from ..fault import Strike, Target


def strike(target: Target) -> Strike | None:
    """Refuse one call as if its rights had not been granted yet; the same call works afterwards."""
    return Strike(
        f"{target.call.name!r} was refused for a moment, a temporary lack of rights",
        content="error permission_denied: permission denied",
    )
