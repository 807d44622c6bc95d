"""Hint for a call that takes too long."""

from __future__ import annotations

import re

from ....models import Hint
from ...transcript.shell_commands import parse, testing_commands
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote

_LIMIT = re.compile(r"timeout (\d+(?:\.\d+)?)s|(?:after|of|in) (\d+(?:\.\d+)?) ?s")
_SERVES = re.compile(
    r"\b(?:runserver|http\.server|uvicorn|gunicorn|flask run|npm (?:start|run dev)|serve|tail -[fF]|watch)\b"
)
_ASK_FOR_INPUT = frozenset(
    "python python3 ipython node irb psql mysql vi vim nano less more top htop ssh gdb pdb".split()
)
_FETCHES = re.compile(r"\b(?:pip3? install|npm install|apt(?:-get)? |curl |wget |git (?:clone|fetch|pull))")
_SEARCHES = re.compile(r"\b(?:find|grep -\w*[rR]\w*|ls -\w*R\w*|du)\b[^|;&]*\s/(?:\s|$|usr|home|etc)")


def hint(context: ErrorContext) -> Hint | None:
    """Say why the command takes so long, and how to do less of it."""
    error = context.error
    limit = _LIMIT.search(f"{error.message} {error.evidence}")
    allowed = f"the {limit[1] or limit[2]} s that a call may take" if limit else "the time that a call may take"
    what = quote(context.command, 80) if context.command else error.tool[:60] or "The call"
    return make_hint("timeout", f"{what} does not end within {allowed}.", _advice(context.command, error.tool))


def _advice(line: str, tool: str) -> str:
    parts = parse(line) if line else ()
    if any(part.program == "sleep" for part in parts) or "sleep(" in line:
        return "Do not wait: nothing runs between two commands."
    if _SERVES.search(line):
        return "It never ends by itself: start it with `timeout 5` or test the code without a server."
    if any(
        part.program in _ASK_FOR_INPUT and len(part.words) == 1 and part.after != "|" and not part.redirects
        for part in parts
    ):
        return "It waits for input that never comes: pass a script or use -c."
    if _FETCHES.search(line):
        return "There may be no network: use what is installed."
    if _SEARCHES.search(line):
        return "Search the workspace only, not the whole machine."
    if tool in ("run_tests", "pytest") or testing_commands(line):
        return "Run one test file or one test; if that hangs too, look for an endless loop in the code it calls."
    if any(re.fullmatch(r"python[\d.]*", part.program) for part in parts):
        return "Look for an endless loop, or try it on a smaller input."
    return "Do less in one call: narrow the paths, or split the work."
