"""Style errors: turns without a call, and texts that are missing or too long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript.call_effects import CallEffects, hands_in
from ...transcript.past_turns import PastCall, PastTurn
from .marks import mark_call, mark_turn

LONG_TURN = 6_000
LONG_SUMMARY = 2_000
_HIDDEN = re.compile(r"<think>.*?(?:</think>|\Z)|```.*?(?:```|\Z)", re.DOTALL)
_NO_CALL = "No tool call in this turn"


def style_errors(turns: Sequence[PastTurn], effects: Sequence[CallEffects]) -> Iterator[ErrorTurn]:
    """Mark turns without a call, long texts, and submissions without a word; lengths are in characters.

    Thoughts between ``<think>`` tags and code blocks do not count as text.
    """
    by_place = {(at.turn, at.index): at for at in effects}
    for turn, past in enumerate(turns):
        text = _HIDDEN.sub("", past.text)
        if not past.calls and any(note.startswith(_NO_CALL) for note in past.notes):
            yield mark_turn("no_call", "style", turn, "a turn without a tool call does nothing", text)
        elif len(text) > LONG_TURN:
            yield mark_turn("wordy", "style", turn, f"{len(text)} characters of text in one turn", text)
        for index, call in enumerate(past.calls):
            if not hands_in(call) or call.status.word == "error":
                continue
            summary, at = _summary(call), by_place[turn, index]
            if len(summary) > LONG_SUMMARY:
                yield mark_call("wordy", "style", at, f"a summary of {len(summary)} characters", summary)
            elif not summary.strip() and not text.strip():
                yield mark_call("silent", "style", at, "submitted without a word on what was done", call.name)


def _summary(call: PastCall) -> str:
    return "\n".join(value for value in call.arguments.values() if isinstance(value, str))
