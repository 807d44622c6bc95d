"""The tools that there are, and the one that was probably meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...transcript.past_turns import PastTurn
from ...transcript.tool_schemas import parameters_of
from .kit import hint as made
from .kit import listed, nearest_name

_LIST = "The tools are: "


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """The list of a status line wins: tools may have been withdrawn or renamed since ``tools`` was written."""
    if error.kind != "tool_not_found":
        return None
    names = list(parameters_of(tools))
    said = error.message if _LIST in error.message else error.evidence
    if _LIST in said:
        told = [name.strip() for name in said.partition(_LIST)[2].split(",")]
        names = [name for name in told if name] if len(told) >= len(names) or error.injected else names
    if not names:
        return None
    near = nearest_name(error.tool, names)
    wrong = f"There is no tool {error.tool[:60]!r}" + (f"; use {near}." if near else ".")
    return made("tool_not_found", f"Reminder: the available tools are {listed(names)}.", wrong)
