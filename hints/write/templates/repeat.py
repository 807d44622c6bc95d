"""The same call again brings the same result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour.mark import name_of
from ...transcript.past_turns import PastTurn
from .kit import hint as made
from .kit import quote


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """It names the turn that holds the result."""
    if name_of(error) != "repeat":
        return None
    earlier = re.search(r"turn (\d+)", error.message)
    when = f"turn {earlier[1]}" if earlier else "an earlier turn"
    what = quote(error.evidence, 100)
    return made(
        "repeat",
        f"The result of {what} is already in {when} and nothing has changed since: use it.",
        "Take the next step instead: change something, or submit when the work is done.",
    )
