"""Hint for a call that was made before with the same result."""

from __future__ import annotations

import re

from ....models import Hint
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote


def hint(context: ErrorContext) -> Hint | None:
    """Name the turn that already holds the result of a repeated call."""
    if context.behaviour != "repeat":
        return None
    earlier = re.search(r"turn (\d+)", context.error.message)
    place = f"turn {earlier[1]}" if earlier else "an earlier turn"
    unchanged = " and nothing has changed since" if "nothing was changed" in context.error.message else ""
    return make_hint(
        "repeat",
        f"The result of {quote(context.error.evidence, 100)} is already in {place}{unchanged}: use it.",
        "Take the next step instead: change something, or submit when the work is done.",
    )
