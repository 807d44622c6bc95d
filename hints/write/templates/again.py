"""A call that failed before fails again when nothing has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour import log, name_of
from ...transcript.past_turns import PastCall, PastTurn
from .kit import call_of, quote
from .kit import hint as made


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """A second hint for any failed call that was made before with the same result and no change since."""
    call = call_of(error, turns)
    if (
        call is None
        or error.injected
        or name_of(error)
        or error.kind in ("transport_error", "injected_fault", "budget")
    ):
        return None
    if call.problem or not call.arguments:
        return None  # two broken calls need not be the same
    found = _before(error, turns, call)
    if found is None:
        return None
    what = quote(log.command(call) or log.key(call), 100)
    return made("again", f"{what} has failed in turn {found} already, and nothing was changed since: try another way.")


def _before(error: ErrorTurn, turns: Sequence[PastTurn], call: PastCall) -> int | None:
    """The turn of the same call with the same result; ``None`` when there is none, or something has changed since."""
    for turn in range(error.turn, -1, -1):
        calls = turns[turn].calls[: error.call_index] if turn == error.turn else turns[turn].calls
        for other in reversed(calls):
            if other.name == call.name and other.arguments == call.arguments and log.same_result(other, call):
                return turn
            if log.may_change(other):
                return None
    return None
