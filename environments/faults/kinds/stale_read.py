"""The fault ``stale_read``."""

from __future__ import annotations

from ..fault import Strike, Target, is_ok


def strike(target: Target) -> Strike | None:
    """Return the previous result of the same call, although it has changed since."""
    earlier = target.earlier
    if earlier is None or not is_ok(earlier):
        return None

    def outdated(content: str) -> str | None:
        return earlier if is_ok(content) and content != earlier else None

    return Strike(f"{target.call.name!r} gave its last result again, which is out of date", result=outdated)
