"""Nothing happens while one waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour.mark import name_of
from ...transcript.past_turns import PastTurn
from .kit import hint as made
from .kit import quote


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """It quotes the command that waits."""
    if name_of(error) != "sleep":
        return None
    background = "&" in error.evidence or error.evidence.lstrip().startswith(("while", "until", "for"))
    instead = "Let the command run in the foreground: its result comes when it is done." if background else ""
    return made(
        "sleep",
        f"Leave out {quote(error.evidence, 100)}: nothing runs between two commands, so there is nothing to wait for.",
        instead or "Take the next step at once.",
    )
