"""Waiting: ``sleep``, and loops that poll."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript.call_effects import CallEffects, one_line, waits
from ...transcript.past_turns import PastTurn
from .marks import mark_call


def find(turns: Sequence[PastTurn], effects: Sequence[CallEffects]) -> Iterator[ErrorTurn]:
    """Mark calls that wait; a short wait for what the same command started is fine, and a timeout is another error."""
    for at in effects:
        if at.call.status.word not in ("error", "timeout") and waits(at.call):
            evidence = at.command or one_line(at.call)
            yield mark_call("sleep", "wasteful", at, "waits, although nothing runs between two commands", evidence)
