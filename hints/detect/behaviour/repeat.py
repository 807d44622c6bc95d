"""The same call again, with the same result, and nothing changed between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript.past_turns import PastTurn
from . import log
from .mark import mark


def find(turns: Sequence[PastTurn], calls: Sequence[log.At]) -> Iterator[ErrorTurn]:
    """Calls that failed are errors of their own, reads are ``reread``'s, and waiting is ``sleep``'s."""
    earlier: dict[str, list[log.At]] = {}  # by tool
    for at in calls:
        if at.failed and at.run is None:
            continue
        known = earlier.get(at.call.name, ())
        same = next((one for one in reversed(known) if one.call.arguments == at.call.arguments), None)
        if same is not None and _counts(at) and log.same_result(same.call, at.call):
            text = f"the same call as in turn {same.turn}, with the same result; nothing was changed between"
            yield mark("repeat", "wasteful", at, text, at.command or log.key(at.call))
        elif at.may_change:
            earlier.clear()
        earlier.setdefault(at.call.name, []).append(at)


def _counts(at: log.At) -> bool:
    """Two calls of a tool that acts may both be meant; those of a command, a search or a test run are not."""
    if at.shown or log.ends(at.call) or log.waits(at.call) or log.cut(at.call):
        return False
    return bool(at.command) or not at.may_change
