"""Faults that answer a call without running it; the same call works afterwards."""

from __future__ import annotations

from ..fault import Strike, Target


def permission(target: Target) -> Strike:
    """Refuse one call as if its rights had not been granted yet; the same call works afterwards."""
    text = f"{target.call.name!r} was refused for a moment, a temporary lack of rights"
    return Strike(text, content="error permission_denied: permission denied")


def rate_limit(target: Target) -> Strike:
    """Refuse one call for a rate limit; the same call works afterwards."""
    text = f"{target.call.name!r} took no call for a moment"
    return Strike(text, content="error transport_error: rate limit: too many calls, try again")


def timeout(target: Target) -> Strike:
    """Let one call time out without running it; the same call works afterwards."""
    # No duration is named: the call is answered at once, and a limit that did not pass would contradict the clock.
    text = f"{target.call.name!r} timed out once"
    return Strike(text, content="error timeout: the tool server did not answer in time")


def transient(target: Target) -> Strike:
    """Break the connection to a tool once, before the call is run; the same call works afterwards."""
    text = f"the connection to {target.call.name!r} broke once"
    return Strike(text, content="error transport_error: connection reset by the tool server")
