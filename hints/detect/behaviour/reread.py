"""A file, or part of it, shown again although nothing was written since."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript.call_effects import CallEffects, one_line, path_of, workspace_path, writes_by_name
from ...transcript.past_turns import PastCall, PastTurn
from ...transcript.shell_commands import ShownFile
from .marks import mark_call

_CUT = re.compile(r"\[\.\.\. lines (\d+)-\d+ of \d+ not shown|bytes dropped \.\.\.\]|truncated|clipped")
Shown = dict[str, list[tuple[float, float, int]]]
"""First line, last line and turn of what was shown, by path."""


def find(turns: Sequence[PastTurn], effects: Sequence[CallEffects]) -> Iterator[ErrorTurn]:
    """Mark reads of lines that one earlier read has shown in full.

    A write to another file by a tool that names it changes nothing. A command that runs something before it shows the
    file may have written to it.
    """
    shown: Shown = {}
    for at in effects:
        call = at.call
        if at.failed:
            continue
        earlier_turns = [_turn_shown(shown, file) for file in at.shown if not file.is_fresh]
        if at.shown and len(earlier_turns) == len(at.shown) and None not in earlier_turns:
            text = f"{at.shown[0].path} was read in turn {earlier_turns[0]} and nothing was written to it since"
            yield mark_call("reread", "wasteful", at, text, at.command or one_line(call))
        for file in at.shown:
            shown.setdefault(file.path, []).append((file.first, _last_line(call, file.last), at.turn))
        if writes_by_name(call) and path_of(call):
            shown.pop(workspace_path(path_of(call)), None)
        elif at.may_change:
            shown.clear()


def _turn_shown(shown: Shown, file: ShownFile) -> int | None:
    """Return the turn in which these lines were shown; ``None`` when they were not."""
    earlier = shown.get(file.path, ())
    return next((turn for first, last, turn in earlier if first <= file.first and file.last <= last), None)


def _last_line(call: PastCall, last: float) -> float:
    """Return the last line that was really shown; a result that was cut elsewhere counts as not shown."""
    cut = _CUT.search(call.body[-400:]) or (_CUT.search(call.body) if len(call.body) > 4000 else None)
    if cut is None:
        return last
    return float(cut[1]) - 1 if cut[1] else 0.0
