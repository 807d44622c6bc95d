"""Say what was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour import log
from ...detect.behaviour.mark import name_of
from ...transcript.past_turns import PastTurn
from .kit import hint as made
from .kit import listed, quote


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """It names what was written."""
    if name_of(error) != "silent":
        return None
    paths = dict.fromkeys(
        log.path_of(at.call) for at in log.calls(turns[: error.turn + 1]) if log.writes_by_name(at.call)
    )
    named = [quote(path, 60) for path in paths if path and not path.startswith("/tmp/")][:3]
    about = f" (you wrote to {listed(named)})" if named else ""
    return made(
        "silent", f"Close with one or two sentences: what you changed{about}, and which tests you ran with what result."
    )
