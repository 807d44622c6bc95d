"""Hint for a call that fails a second time in the same way."""

from __future__ import annotations

from ....models import Hint
from ...transcript.call_effects import command_of, may_change, one_line, same_result
from ...transcript.past_turns import PastCall
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote


def hint(context: ErrorContext) -> Hint | None:
    """Point out that the same call has failed before with the same result."""
    call, error = context.call, context.error
    if call is None or context.behaviour or error.kind in ("transport_error", "injected_fault", "budget"):
        return None
    if call.problem or not call.arguments:
        return None  # two broken calls need not be the same
    turn = _earlier_turn(context, call)
    if turn is None:
        return None
    unchanged = "" if may_change(call) else ", and nothing was changed since"
    text = f"{quote(command_of(call) or one_line(call), 100)} has failed in turn {turn} already{unchanged}"
    return make_hint("again", f"{text}: try another way.")


def _earlier_turn(context: ErrorContext, call: PastCall) -> int | None:
    """Return the turn of the same call with the same result; ``None`` when there is none, or something has changed."""
    error, turns = context.error, context.turns
    for turn in range(error.turn, -1, -1):
        calls = turns[turn].calls[: error.call_index] if turn == error.turn else turns[turn].calls
        for other in reversed(calls):
            if other.name == call.name and other.arguments == call.arguments and same_result(other, call):
                return turn
            if may_change(other):
                return None
    return None
