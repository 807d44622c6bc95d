"""Stop when the work is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour.mark import name_of
from ...transcript.past_turns import PastTurn
from ...transcript.tool_schemas import parameters_of
from .kit import hint as made


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """It says since when nothing has changed."""
    if name_of(error) != "effort":
        return None
    since = error.message.partition(": ")[2]
    ending = next((name for name in parameters_of(tools) if name in ("submit", "finish", "done")), "")
    close = f"call {ending} now" if ending else "give your answer now"
    return made("effort", f"The work is done ({since}): {close}, in place of another look.")
