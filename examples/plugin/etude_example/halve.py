"""The hint ``halve``: advice after a comparison with a number outside the range."""

from __future__ import annotations

from etude.hints.write.error_context import ErrorContext
from etude.hints.write.hint_text import make_hint
from etude.models import Hint


def hint(context: ErrorContext) -> Hint | None:
    """Say how to search when `compare` was called with a number outside the range."""
    error = context.error
    if error.kind != "invalid_args" or error.tool != "compare" or "between" not in error.message:
        return None
    return make_hint("halve", "The number is outside the range.", "Start in the middle, and halve what is left.")
