"""The tool's server, not the call, is at fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...transcript.past_turns import PastTurn
from .kit import hint as made


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """To send the call once more is right here, as it is nowhere else."""
    if error.kind != "transport_error":
        return None
    tool = error.tool[:60] or "the tool"
    return made(
        "transport_error",
        f"The connection to {tool} failed, not your call: send the same call once more.",
        "If it fails again, do the step with another tool.",
    )
