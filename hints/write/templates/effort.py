"""Hint for an agent that continues although the work is done."""

from __future__ import annotations

from ....models import Hint
from ..error_context import ErrorContext
from ..hint_text import make_hint


def hint(context: ErrorContext) -> Hint | None:
    """Tell the agent to hand in, because the tests passed and nothing has changed since."""
    if context.behaviour != "effort":
        return None
    ending = context.ending_tool
    close = f"call {ending} now" if ending else "give your answer now"
    return make_hint("effort", f"The work is done ({context.detail}): {close} instead of checking again.")
