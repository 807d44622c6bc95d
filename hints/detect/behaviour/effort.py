"""Effort out of proportion: turn after turn although the work is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript.call_effects import CallEffects, hands_in, one_line
from ...transcript.past_turns import PastTurn
from .marks import mark_call

IDLE_TURNS = 10


def find(turns: Sequence[PastTurn], effects: Sequence[CallEffects]) -> Iterator[ErrorTurn]:
    """Mark every IDLE_TURNS turns in which nothing is changed after a change whose tests passed."""
    has_changed, done_turn, marks, effects_left = False, None, 0, iter(effects)
    for turn, past in enumerate(turns):
        calls = [next(effects_left) for _ in past.calls]
        for call in calls:
            if call.test_run is not None:
                is_done = has_changed and call.test_run.outcome == "passed"
                done_turn = (turn if done_turn is None else done_turn) if is_done else None
            elif call.may_change:
                has_changed, done_turn = True, None
        if done_turn is None:
            marks = 0
            continue
        idle = turn - done_turn
        if calls and idle >= IDLE_TURNS * (marks + 1) and not hands_in(calls[-1].call):
            marks += 1
            text = f"the tests passed in turn {done_turn} and nothing was changed in the {idle} turns since"
            yield mark_call("effort", "wasteful", calls[0], text, one_line(calls[0].call))
