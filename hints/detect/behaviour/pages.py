"""Pages of output: a huge file shown whole, or one cut result after another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript.call_effects import CallEffects, one_line, was_limited
from ...transcript.past_turns import PastTurn
from ...transcript.shell_commands import shown_files
from .marks import mark_call

HUGE = 10_000
"""Characters of output that fill pages."""
SOON = 3
"""Turns within which a second cut result counts."""
_CUT = re.compile(r"\[\.\.\. lines \d+-\d+ of \d+ not shown|truncated|clipped", re.I)


def find(turns: Sequence[PastTurn], effects: Sequence[CallEffects]) -> Iterator[ErrorTurn]:
    """Mark a file of more than HUGE characters shown by ``cat``, and large partial reads at most SOON turns apart.

    A result that was cut at the output limit is an error of its own.
    """
    last_cut: int | None = None
    for at in effects:
        call, line = at.call, at.command
        if len(call.body) < HUGE or at.failed or was_limited(call):
            continue
        is_cut = _CUT.search(call.body) is not None
        size = f"{len(call.body)} characters of output"
        if line and any(file.last == float("inf") for file in shown_files(line)):
            yield mark_call("pages", "wasteful", at, f"{size}: a whole file, shown at once", line)
        elif is_cut and last_cut is not None and at.turn - last_cut <= SOON:
            text = f"{size}, cut again: so was that of turn {last_cut}"
            yield mark_call("pages", "wasteful", at, text, line or one_line(call))
        if is_cut:
            last_cut = at.turn
