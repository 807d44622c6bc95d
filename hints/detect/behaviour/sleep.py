"""Waiting: ``sleep``, and loops that poll."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript.past_turns import PastTurn
from . import log
from .mark import mark


def find(turns: Sequence[PastTurn], calls: Sequence[log.At]) -> Iterator[ErrorTurn]:
    """A short wait for something that the same command has started is fine; one that timed out has its error."""
    for at in calls:
        if at.call.status.word not in ("error", "timeout") and log.waits(at.call):
            what = at.command or log.key(at.call)
            yield mark("sleep", "wasteful", at, "waits, although nothing goes on between two commands", what)
