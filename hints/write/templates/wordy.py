"""Say it shortly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour.mark import name_of
from ...transcript.past_turns import PastTurn
from .kit import hint as made


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """It says how much text there was."""
    if name_of(error) != "wordy":
        return None
    size = error.message.partition(": ")[2]
    return made(
        "wordy",
        f"Say in a few sentences what you do and why; {size} is too much.",
        "Leave out code that is in a file, and what has been said before.",
    )
