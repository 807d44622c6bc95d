"""Effort out of proportion: turn after turn although the work is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript.past_turns import PastTurn
from . import log
from .mark import mark

IDLE_TURNS = 10


def find(turns: Sequence[PastTurn], calls: Sequence[log.At]) -> Iterator[ErrorTurn]:
    """Each IDLE_TURNS turns in which nothing is changed after a change whose tests passed."""
    changed, done, marked, calls_of = False, None, 0, iter(calls)
    for turn, past in enumerate(turns):
        mine = [next(calls_of) for _ in past.calls]
        for at in mine:
            if at.run is not None:
                done = (turn if done is None else done) if changed and at.run.outcome == "passed" else None
            elif at.may_change:
                changed, done = True, None
        if done is None:
            marked = 0
            continue
        idle = turn - done
        if mine and idle >= IDLE_TURNS * (marked + 1) and not log.ends(mine[-1].call):
            marked += 1
            text = f"the tests passed in turn {done} and nothing was changed in the {idle} turns since"
            yield mark("effort", "wasteful", mine[0], text, log.key(mine[0].call))
