"""What was read is still there to be used."""

from __future__ import annotations

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
    """It names the file and the turn that showed it."""
    if name_of(error) != "reread":
        return None
    path, _, rest = error.message.partition(": ")[2].partition(" was read in ")
    turn = rest.partition(" and ")[0]
    return made(
        "reread",
        f"{quote(path, 120)} is already shown in {turn}, and nobody wrote to it since: look there.",
        "Read only lines that you have not seen.",
    )
