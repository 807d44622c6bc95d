"""A file, or part of it, shown again although nothing was written since."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ....models import ErrorTurn
from ...transcript.past_turns import PastCall, PastTurn
from . import log
from .mark import mark

_CUT = re.compile(r"\[\.\.\. lines (\d+)-\d+ of \d+ not shown|bytes dropped \.\.\.\]|truncated|clipped")


def find(turns: Sequence[PastTurn], calls: Sequence[log.At]) -> Iterator[ErrorTurn]:
    """Lines that one earlier read has shown whole. A write to another file by a tool that names it changes nothing."""
    seen: dict[str, list[tuple[float, float, int]]] = {}
    for at in calls:
        call = at.call
        if at.failed:
            continue
        again = [(path, turn) for path, first, last in at.shown if (turn := _covered(seen, path, first, last))]
        if again and len(again) == len(at.shown):
            path, turn = again[0]
            text = f"{path} was read in turn {turn - 1} and nothing was written to it since"
            yield mark("reread", "wasteful", at, text, at.command or log.key(at.call))
        for path, first, last in at.shown:
            seen.setdefault(path, []).append((first, _end(call, last), at.turn + 1))
        if log.writes_by_name(call) and log.path_of(call):
            seen.pop(log.norm(log.path_of(call)), None)
        elif at.may_change:
            seen.clear()


def _covered(seen: Mapping[str, list[tuple[float, float, int]]], path: str, first: float, last: float) -> int:
    """One more than the turn in which these lines were shown; 0 when they were not."""
    return next((turn for low, high, turn in seen.get(path, ()) if low <= first and last <= high), 0)


def _end(call: PastCall, last: float) -> float:
    """The last line that was really shown; what was cut elsewhere counts as not shown."""
    cut = _CUT.search(call.body[-400:]) or (_CUT.search(call.body) if len(call.body) > 4000 else None)
    if cut is None:
        return last
    return float(cut[1]) - 1 if cut[1] else 0.0
