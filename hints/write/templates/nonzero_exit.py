"""Hint for a command that ends with an exit code other than 0."""

from __future__ import annotations

import re

from ....models import Hint
from ...transcript.shell_commands import parse, testing_commands
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote

_ERROR = re.compile(r"(?:[\w./-]+: )?(?:fatal|(?:\w+ )?error|panic)\b[^\n]*: ?\S", re.IGNORECASE)
_CODES = {
    126: "the file is not executable: run it with its interpreter",
    130: "it was interrupted",
    134: "it aborted",
    137: "it was killed, as a rule for using too much memory: do less at once",
    139: "it crashed (segmentation fault)",
    143: "it was terminated",
}
_PYTEST = {
    2: "the run was interrupted: a test file could not be imported",
    3: "pytest itself failed",
    4: "pytest was called wrongly: check the path and the options",
    5: "no test was collected: check the path and the test's name",
}


def hint(context: ErrorContext) -> Hint | None:
    """Say what the exit code means, and quote the line that gives the reason."""
    error, call = context.error, context.call
    what = quote(context.command, 80) if context.command else error.tool[:60] or "The call"
    code = call.status.exit_code if call is not None else None
    if call is None or code is None:
        reason = error.message.rstrip(".")[:200]
        return make_hint("nonzero_exit", f"{what} fails: {reason}.", "Fix that before you try it again.")
    meaning, reason = _meaning(context, code), _reason(call.body)
    start = f"{what} ends with exit code {code}" + (f": {meaning}." if meaning else ".")
    silent = "" if meaning else "It prints nothing: ask for more with a verbose option."
    words = f"It says {quote(reason, 140)}." if reason else silent
    return make_hint("nonzero_exit", start, words, "" if meaning else "Fix that first, then run it again.")


def _meaning(context: ErrorContext, code: int) -> str:
    tests = testing_commands(context.command) if context.command else ()
    if code in _PYTEST and (context.error.tool == "run_tests" or any("pytest" in part.words[0] for part in tests)):
        return _PYTEST[code]
    if code == 1 and tests:
        return "a test fails; read the first failure"
    parts = parse(context.command) if context.command else ()
    if code == 1 and parts and parts[-1].program in ("grep", "rg", "egrep", "fgrep"):
        return "nothing matches, which is an answer and not a failure"
    if code == 1 and parts and parts[-1].program in ("diff", "cmp"):
        return "the files differ, which is an answer and not a failure"
    return _CODES.get(code, "")


def _reason(body: str) -> str:
    """Return the last line that calls itself an error, when usage lines follow it; else the last line."""
    lines = [line.strip() for line in body[-4000:].splitlines() if line.strip()]
    return next(filter(_ERROR.match, reversed(lines)), lines[-1] if lines else "")
