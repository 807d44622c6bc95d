"""How to ask for less output."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour import log, shell
from ...transcript.past_turns import PastTurn
from ...transcript.tool_schemas import parameters_of
from .kit import call_of, quote
from .kit import hint as made

_DROPPED = re.compile(r"(\d+) bytes dropped")


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """By what printed so much: a file, a search, a test run, or any other command."""
    if error.kind != "output_limit":
        return None
    call = call_of(error, turns)
    line = log.command(call) if call is not None else ""
    dropped = _DROPPED.search(call.body) if call is not None else None
    what = quote(line, 80) if line else error.tool[:60] or "The call"
    lost = f": {dropped[1]} bytes of it are lost" if dropped else ""
    start = f"{what} prints more than a result holds{lost}."
    return made("output_limit", start, _advice(line, call is not None and bool(log.shown(call)), tools))


def _advice(line: str, file: bool, tools: Sequence[Mapping[str, Any]]) -> str:
    ranged = "start_line" in (parameters_of(tools).get("read_file", {}).get("properties") or {})
    programs = {part.program for part in shell.parse(line)}
    if file or programs & {"cat", "nl", "bat"}:
        part = "read_file with start_line and end_line" if ranged else "`sed -n '1,100p'`"
        return f"Search for what you need, then show those lines alone with {part}."
    if programs & {"grep", "rg", "egrep", "find", "ls", "tree", "ag"}:
        return "Search in one folder, list file names only (`grep -l`), or add `| head -50`."
    if line and shell.parts_that_test(line):
        return "Run one test with `-q --tb=short`, or add `| tail -40`."
    return "Keep the part that matters with `| head -50`, `| tail -50` or `| grep`."
