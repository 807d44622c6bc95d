"""Faults that change the result of a call that was run."""

from __future__ import annotations

from collections.abc import Callable

from ....hints.transcript.status_line import dropped_mark
from ..fault import Strike, Target, is_ok

_SHORTEST = 4
_UNREADABLE = "\ufffd"


def truncated(target: Target) -> Strike:
    """Drop the second half of a result; a line in its place says how much is missing."""

    def cut(half: str) -> str:
        return f"\n{dropped_mark(len(half.encode('utf-8', 'replace')))}"

    text = f"half of the result of {target.call.name!r} was lost: it came truncated"
    return Strike(text, result=lambda content: _with_other_end(content, cut))


def garbled(target: Target) -> Strike:
    """Make the second half of a result unreadable, without saying so."""

    def garble(half: str) -> str:
        return "".join(character if character.isspace() else _UNREADABLE for character in half)

    text = f"half of the result of {target.call.name!r} came garbled"
    return Strike(text, result=lambda content: _with_other_end(content, garble))


def _with_other_end(content: str, change: Callable[[str], str]) -> str | None:
    """Return the result with a changed second half, None for a result that is too short or is an error."""
    status, _, body = content.partition("\n")
    if status != "ok" or len(body) < _SHORTEST:
        return None
    half = len(body) // 2
    return f"{status}\n{body[:half]}{change(body[half:])}"


def stale_read(target: Target) -> Strike | None:
    """Return the previous result of the same call, although it has changed since."""
    earlier = target.earlier
    if earlier is None or not is_ok(earlier):
        return None

    def outdated(content: str) -> str | None:
        return earlier if is_ok(content) and content != earlier else None

    return Strike(f"{target.call.name!r} gave its last result again, which is out of date", result=outdated)
