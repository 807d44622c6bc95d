"""Pages of output: a huge file shown whole, or one cut result after another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript.past_turns import PastTurn
from . import log, shell
from .mark import mark

HUGE = 10_000
SOON = 3
_CUT = re.compile(r"\[\.\.\. lines \d+-\d+ of \d+ not shown|truncated|clipped", re.I)


def find(turns: Sequence[PastTurn], calls: Sequence[log.At]) -> Iterator[ErrorTurn]:
    """A file of more than HUGE characters by ``cat``; or reads that show a part, SOON turns apart at most.

    What was cut at the output limit is an error of its own.
    """
    last_cut: int | None = None
    for at in calls:
        call = at.call
        if len(call.body) < HUGE or at.failed or log.cut(call):
            continue
        line = at.command
        cut = _CUT.search(call.body) is not None
        size = f"{len(call.body)} characters of output"
        if line and any(last == float("inf") for _, _, last in shell.reads(line)):
            yield mark("pages", "wasteful", at, f"{size}: a whole file, shown at once", line)
        elif cut and last_cut is not None and at.turn - last_cut <= SOON:
            text = f"{size}, cut again: so was that of turn {last_cut}"
            yield mark("pages", "wasteful", at, text, line or log.key(at.call))
        if cut:
            last_cut = at.turn
