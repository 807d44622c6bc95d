"""Show less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour.mark import name_of
from ...transcript.past_turns import PastTurn
from ...transcript.tool_schemas import parameters_of
from .kit import hint as made
from .kit import quote


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """It says how to find the lines that are needed."""
    if name_of(error) != "pages":
        return None
    ranged = "start_line" in (parameters_of(tools).get("read_file", {}).get("properties") or {})
    part = "read_file with start_line and end_line" if ranged else "`sed -n 100,160p`"
    return made(
        "pages",
        f"{quote(error.evidence, 100)} fills pages.",
        f"Search for the name you need, then show only the lines around it with {part}.",
    )
