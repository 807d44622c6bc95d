"""Waste: repeated calls, files read again, waiting, pages of output, and effort after the work is done."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ....models import ErrorTurn
from ...transcript import shell_commands
from ...transcript.call_effects import (
    CallEffects,
    hands_in,
    one_line,
    path_of,
    same_result,
    waits,
    was_limited,
    workspace_path,
    writes_by_name,
)
from ...transcript.past_turns import PastCall, PastTurn
from ...transcript.shell_commands import ShownFile
from .marks import mark_call

HUGE = 10_000
"""Characters of output that fill pages."""
SOON = 3
"""Turns within which a second cut result counts."""
IDLE_TURNS = 10
"""Turns without a change, after tests that passed, that are too many."""
_CUT = re.compile(r"\[\.\.\. lines (\d+)-\d+ of \d+ not shown|bytes dropped \.\.\.\]|truncated|clipped")
_PAGED = re.compile(r"\[\.\.\. lines \d+-\d+ of \d+ not shown|truncated|clipped", re.I)
Shown = dict[str, list[tuple[float, float, int]]]
"""First line, last line and turn of what was shown, by path."""


def repeated_calls(turns: Sequence[PastTurn], effects: Sequence[CallEffects]) -> Iterator[ErrorTurn]:
    """Mark repeated calls. Failed calls have errors of their own, reads belong to ``reread``, waiting to ``sleep``."""
    earlier: dict[str, list[CallEffects]] = {}
    """Calls since the last change, by tool."""
    for at in effects:
        if at.failed and at.test_run is None:
            continue
        same_tool = reversed(earlier.get(at.call.name, ()))
        same = next((other for other in same_tool if other.call.arguments == at.call.arguments), None)
        if same is not None and _is_waste(at) and same_result(same.call, at.call):
            text = f"the same call as in turn {same.turn}, with the same result"
            text += "" if at.may_change else "; nothing was changed between"
            yield mark_call("repeat", "wasteful", at, text, at.command or one_line(at.call))
        elif at.may_change:
            earlier.clear()
        earlier.setdefault(at.call.name, []).append(at)


def _is_waste(at: CallEffects) -> bool:
    """Return whether a repetition is a waste: not for a tool that acts, since both calls may be meant."""
    if at.shown or hands_in(at.call) or waits(at.call) or was_limited(at.call):
        return False
    return bool(at.command) or not at.may_change


def files_read_again(turns: Sequence[PastTurn], effects: Sequence[CallEffects]) -> Iterator[ErrorTurn]:
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


def waiting(turns: Sequence[PastTurn], effects: Sequence[CallEffects]) -> Iterator[ErrorTurn]:
    """Mark calls that wait; a short wait for what the same command started is fine, and a timeout is another error."""
    for at in effects:
        if at.call.status.word not in ("error", "timeout") and waits(at.call):
            evidence = at.command or one_line(at.call)
            yield mark_call("sleep", "wasteful", at, "waits, although nothing runs between two commands", evidence)


def pages_of_output(turns: Sequence[PastTurn], effects: Sequence[CallEffects]) -> Iterator[ErrorTurn]:
    """Mark a file of more than HUGE characters shown by ``cat``, and large partial reads at most SOON turns apart.

    A result that was cut at the output limit is an error already.
    """
    last_cut: int | None = None
    for at in effects:
        call, line = at.call, at.command
        if len(call.body) < HUGE or at.failed or was_limited(call):
            continue
        is_cut = _PAGED.search(call.body) is not None
        size = f"{len(call.body)} characters of output"
        if line and any(file.last == float("inf") for file in shell_commands.shown_files(line)):
            yield mark_call("pages", "wasteful", at, f"{size}: a whole file, shown at once", line)
        elif is_cut and last_cut is not None and at.turn - last_cut <= SOON:
            text = f"{size}, cut again: so was that of turn {last_cut}"
            yield mark_call("pages", "wasteful", at, text, line or one_line(call))
        if is_cut:
            last_cut = at.turn


def effort_after_the_end(turns: Sequence[PastTurn], effects: Sequence[CallEffects]) -> Iterator[ErrorTurn]:
    """Mark every IDLE_TURNS turns in which nothing is changed after a change whose tests passed."""
    has_changed, done_turn, marks, effects_left = False, None, 0, iter(effects)
    for turn, past in enumerate(turns):
        calls = [next(effects_left) for _ in past.calls]
        for call in calls:
            if call.test_run is not None:
                is_done = has_changed and call.test_run.outcome == "passed"
                done_turn = (turn if done_turn is None else done_turn) if is_done else None
            elif call.may_change:
                has_changed, done_turn = True, None
        if done_turn is None:
            marks = 0
            continue
        idle = turn - done_turn
        if calls and idle >= IDLE_TURNS * (marks + 1) and not hands_in(calls[-1].call):
            marks += 1
            text = f"the tests passed in turn {done_turn} and nothing was changed in the {idle} turns since"
            yield mark_call("effort", "wasteful", calls[0], text, one_line(calls[0].call))
