"""Missing or over-long communication."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript.past_turns import PastCall, PastTurn
from . import log
from .mark import mark, mark_turn

LONG_TURN = 6_000
LONG_SUMMARY = 2_000
_HIDDEN = re.compile(r"<think>.*?(?:</think>|\Z)|```.*?(?:```|\Z)", re.DOTALL)
_NO_CALL = "No tool call in this turn"


def find(turns: Sequence[PastTurn], calls: Sequence[log.At]) -> Iterator[ErrorTurn]:
    """Thoughts between ``<think>`` tags and code blocks are not counted as text (lengths are in characters)."""
    for turn, past in enumerate(turns):
        text = _HIDDEN.sub("", past.text)
        if not past.calls and any(note.startswith(_NO_CALL) for note in past.notes):
            yield mark_turn("no_call", "style", turn, "a turn without a tool call does nothing", text)
        elif len(text) > LONG_TURN:
            yield mark_turn("wordy", "style", turn, f"{len(text)} characters of text in one turn", text)
        for index, call in enumerate(past.calls):
            if not log.ends(call) or call.status.word == "error":
                continue
            said = _summary(call)
            at = log.At(turn, index, call)
            if len(said) > LONG_SUMMARY:
                yield mark("wordy", "style", at, f"a summary of {len(said)} characters", said)
            elif not said.strip() and not text.strip():
                yield mark("silent", "style", at, "submitted without a word on what was done", call.name)


def _summary(call: PastCall) -> str:
    return "\n".join(value for value in call.arguments.values() if isinstance(value, str))
