"""Hint for a command that only waits."""

from __future__ import annotations

from ....models import Hint
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote


def hint(context: ErrorContext) -> Hint | None:
    """Tell the agent not to wait, because nothing runs between two commands."""
    if context.behaviour != "sleep":
        return None
    line = context.error.evidence
    is_polling = "&" in line or line.lstrip().startswith(("while", "until", "for"))
    return make_hint(
        "sleep",
        f"Leave out {quote(line, 100)}: nothing runs between two commands, so there is nothing to wait for.",
        "Let the command run in the foreground: its result comes when it is done."
        if is_polling
        else "Take the next step at once.",
    )
