"""Hand in before the budget is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour import log
from ...transcript.past_turns import PastTurn
from ...transcript.tool_schemas import parameters_of
from .kit import hint as made


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """How many turns went where: the share that changed nothing is named when it is large."""
    if error.kind != "budget":
        return None
    past = turns[: error.turn + 1]
    idle = sum(not any(log.may_change(call) for call in turn.calls) for turn in past)
    ending = next((name for name in parameters_of(tools) if name in ("submit", "finish", "done")), "")
    close = f"Call {ending} with what you have" if ending else "Give your answer with what you have"
    spent = f" ({idle} of the {len(past)} turns changed nothing)" if len(past) >= 4 and idle * 2 >= len(past) else ""
    return made("budget", f"The budget ends here. {close}{spent}.", "Leave out what is not needed for the task.")
