"""The fault ``timeout``."""

from __future__ import annotations

from ..fault import Strike, Target


def strike(target: Target) -> Strike | None:
    """Let one call time out without running it; the same call works afterwards."""
    # No duration is named: the call is answered at once, and a limit that did not pass would contradict the clock.
    return Strike(
        f"{target.call.name!r} timed out once", content="error timeout: the tool server did not answer in time"
    )
