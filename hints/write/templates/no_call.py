"""Hint for a turn without a tool call."""

from __future__ import annotations

from ....models import Hint
from ..error_context import ErrorContext
from ..hint_text import listed, make_hint


def hint(context: ErrorContext) -> Hint | None:
    """Remind the agent that text alone does nothing, and name the tools."""
    if context.behaviour != "no_call":
        return None
    ending = context.ending_tool
    close = f" When the work is done, call {ending}." if ending else ""
    start = f"Make a tool call in each turn; text alone does nothing.{close}"
    return make_hint("no_call", start, f"The tools are {listed(context.schemas)}.")
