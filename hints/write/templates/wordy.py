"""Hint for a turn or a summary that is too long."""

from __future__ import annotations

from ....models import Hint
from ..error_context import ErrorContext
from ..hint_text import make_hint


def hint(context: ErrorContext) -> Hint | None:
    """Ask for a few sentences, and say how long the text was."""
    if context.behaviour != "wordy":
        return None
    return make_hint(
        "wordy",
        f"Say in a few sentences what you do and why; {context.detail} is too much.",
        "Leave out code that is in a file, and what has been said before.",
    )
