"""A turn acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour.mark import name_of
from ...transcript.past_turns import PastTurn
from ...transcript.tool_schemas import parameters_of
from .kit import hint as made
from .kit import listed


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """It names the tools, and the one that ends the episode."""
    if name_of(error) != "no_call":
        return None
    names = list(parameters_of(tools))
    ending = next((name for name in names if name in ("submit", "finish", "done")), "")
    close = f" When the work is done, call {ending}." if ending else ""
    return made(
        "no_call", f"Make a tool call in each turn; text alone does nothing.{close}", f"The tools are {listed(names)}."
    )
