"""Hint for output that fills pages."""

from __future__ import annotations

from ....models import Hint
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote


def hint(context: ErrorContext) -> Hint | None:
    """Say how to find and show only the lines that are needed."""
    if context.behaviour != "pages":
        return None
    has_range = "start_line" in context.arguments_of("read_file")
    part = "read_file with start_line and end_line" if has_range else "`sed -n 100,160p`"
    return make_hint(
        "pages",
        f"{quote(context.error.evidence, 100)} fills pages.",
        f"Search for the name you need, then show only the lines around it with {part}.",
    )
