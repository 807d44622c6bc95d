"""Hint for an episode whose turns, tokens or seconds ran out."""

from __future__ import annotations

from ....models import Hint
from ...transcript.call_effects import may_change
from ..error_context import ErrorContext
from ..hint_text import make_hint


def hint(context: ErrorContext) -> Hint | None:
    """Advise to hand in before the budget ends, and how many turns changed nothing."""
    past = context.turns[: context.error.turn + 1]
    idle = sum(not any(may_change(call) for call in turn.calls) for turn in past)
    ending = context.ending_tool
    close = f"Call {ending} with what you have" if ending else "Give your answer with what you have"
    spent = f" ({idle} of the {len(past)} turns changed nothing)" if len(past) >= 4 and idle * 2 >= len(past) else ""
    return make_hint("budget", f"The budget ends here. {close}{spent}.", "Leave out what is not needed for the task.")
