"""The same call again, with the same result, and no other call that changed anything between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript.call_effects import CallEffects, hands_in, one_line, same_result, waits, was_limited
from ...transcript.past_turns import PastTurn
from .marks import mark_call


def find(turns: Sequence[PastTurn], effects: Sequence[CallEffects]) -> Iterator[ErrorTurn]:
    """Mark repeated calls. Failed calls have errors of their own, reads belong to ``reread``, waiting to ``sleep``."""
    earlier: dict[str, list[CallEffects]] = {}
    """Calls since the last change, by tool."""
    for at in effects:
        if at.failed and at.test_run is None:
            continue
        same_tool = reversed(earlier.get(at.call.name, ()))
        same = next((other for other in same_tool if other.call.arguments == at.call.arguments), None)
        if same is not None and _counts(at) and same_result(same.call, at.call):
            text = f"the same call as in turn {same.turn}, with the same result"
            text += "" if at.may_change else "; nothing was changed between"
            yield mark_call("repeat", "wasteful", at, text, at.command or one_line(at.call))
        elif at.may_change:
            earlier.clear()
        earlier.setdefault(at.call.name, []).append(at)


def _counts(at: CallEffects) -> bool:
    """Return whether a repetition is a waste: not for a tool that acts, since both calls may be meant."""
    if at.shown or hands_in(at.call) or waits(at.call) or was_limited(at.call):
        return False
    return bool(at.command) or not at.may_change
