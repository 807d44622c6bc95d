"""What an exit code means, and what the command said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour import log, shell
from ...transcript.past_turns import PastCall, PastTurn
from .kit import call_of, quote
from .kit import hint as made

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


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """What the code means, and the line that says why."""
    if error.kind != "nonzero_exit":
        return None
    call = call_of(error, turns)
    line = log.command(call) if call is not None else ""
    what = quote(line, 80) if line else error.tool[:60] or "The call"
    code = call.status.exit_code if call is not None else None
    meaning = _meaning(call, line, code)
    said = _reason(call.body) if call is not None else ""
    if code is None:
        reason = error.message.rstrip(".")[:200]
        return made("nonzero_exit", f"{what} fails: {reason}.", "Deal with that before you try it again.")
    start = f"{what} ends with exit code {code}" + (f": {meaning}." if meaning else ".")
    silent = "" if meaning else "It prints nothing: ask for more with a verbose option."
    words = f"It says {quote(said, 140)}." if said else silent
    return made("nonzero_exit", start, words, "" if meaning else "Mend that first, then run it again.")


def _meaning(call: PastCall | None, line: str, code: int | None) -> str:
    if code is None:
        return ""
    tests = shell.parts_that_test(line) if line else []
    if code in _PYTEST and (
        (call is not None and call.name == "run_tests") or any("pytest" in p.words[0] for p in tests)
    ):
        return _PYTEST[code]
    if code == 1 and tests:
        return "a test fails; read the first failure"
    parts = shell.parse(line) if line else ()
    if code == 1 and parts and parts[-1].program in ("grep", "rg", "egrep", "fgrep"):
        return "nothing matches, which is an answer and no failure"
    if code == 1 and parts and parts[-1].program in ("diff", "cmp"):
        return "the files differ, which is an answer and no failure"
    return _CODES.get(code, "")


def _reason(body: str) -> str:
    """The last line that calls itself an error, when usage lines follow it; else the last line."""
    lines = [line.strip() for line in body[-4000:].splitlines() if line.strip()]
    return next(filter(_ERROR.match, reversed(lines)), lines[-1] if lines else "")
