"""What took so long, and how to do less of it."""

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

_LIMIT = re.compile(r"timeout (\d+(?:\.\d+)?)s|(?:after|of|in) (\d+(?:\.\d+)?) ?s")
_SERVES = re.compile(
    r"\b(?:runserver|http\.server|uvicorn|gunicorn|flask run|npm (?:start|run dev)|serve|tail -[fF]|watch)\b"
)
_ASKS = frozenset("python python3 ipython node irb psql mysql vi vim nano less more top htop ssh gdb pdb".split())
_FETCHES = re.compile(r"\b(?:pip3? install|npm install|apt(?:-get)? |curl |wget |git (?:clone|fetch|pull))")
_SEARCHES = re.compile(r"\b(?:find|grep -\w*[rR]\w*|ls -\w*R\w*|du)\b[^|;&]*\s/(?:\s|$|usr|home|etc)")


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """The advice depends on what the command would have done."""
    if error.kind != "timeout":
        return None
    call = call_of(error, turns)
    line = log.command(call) if call is not None else ""
    limit = _LIMIT.search(f"{error.message} {error.evidence}")
    allowed = f"the {limit[1] or limit[2]} s that a call may take" if limit else "the time that a call may take"
    what = quote(line, 80) if line else error.tool[:60] or "The call"
    longer = ""
    properties = parameters_of(tools).get(error.tool, {}).get("properties") or {}
    if call is not None and "timeout_s" in properties and "timeout_s" in call.arguments:
        longer = "A larger timeout_s is allowed only up to the tool's limit."
    return made("timeout", f"{what} does not end within {allowed}.", _advice(line, error.tool), longer)


def _advice(line: str, tool: str) -> str:
    parts = shell.parse(line) if line else ()
    if any(part.program == "sleep" for part in parts) or "sleep(" in line:
        return "Do not wait: nothing goes on between two commands."
    if _SERVES.search(line):
        return "It never ends by itself: start it with `timeout 5` or test the code without a server."
    if any(
        part.program in _ASKS and len(part.words) == 1 and part.after != "|" and not part.redirects for part in parts
    ):
        return "It waits for input that nobody gives: pass a script or use -c."
    if _FETCHES.search(line):
        return "There may be no network: use what is installed."
    if _SEARCHES.search(line):
        return "Search the workspace only, not the whole machine."
    if tool in ("run_tests", "pytest") or shell.parts_that_test(line):
        return "Run one test file or one test; if that hangs too, look for an endless loop in the code it calls."
    if any(re.fullmatch(r"python[\d.]*", part.program) for part in parts):
        return "Look for an endless loop, or try it on a smaller input."
    return "Do less in one call: narrow the paths, or split the work."
