"""The exception, and the line of the innermost frame in the workspace."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour import log
from ...transcript.past_turns import PastTurn
from .kit import call_of, quote
from .kit import hint as made

_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^[ \t|]*File "([^"\n]+)", line (\d{1,9})(?:, in (\S+))?', re.MULTILINE)
_PYTEST = re.compile(r"^((?:[\w.@+-]+/)*[\w.@+-]+\.py):(\d{1,9}): (?:in (\S+)|(\w[\w.]*))", re.MULTILINE)
_RAISED = re.compile(
    r"^(?:E   +|[ |+-]*)?((?:\w+\.)*\w*(?:Error|Exception|Warning|Interrupt|Exit|Failed))(?:: (.*))?$", re.MULTILINE
)
_ELSEWHERE = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python[\d.]*|python[\d.]+/lib)/|^<|^/usr/|^/opt/")


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """Of chained tracebacks the last; frames of the library and of installed packages are passed over."""
    if error.kind != "traceback":
        return None
    call = call_of(error, turns)
    body = call.body if call is not None and call.body else error.evidence
    raised = _raised(body) or _raised(error.message)
    frame = _frame(body)
    what = f"{raised[0]}: {raised[1]}".rstrip(": ") if raised else "an exception"
    if frame is None:
        return made("traceback", f"It raises {quote(what, 140)}.", "Find the cause before you run it again.")
    path, line, function = frame
    inside = f" (in {function})" if function and function != "<module>" else ""
    return made(
        "traceback",
        f"{quote(what, 140)} comes from line {line} of {quote(log.norm(path), 120)}{inside}.",
        "Read that line and mend the cause there, before you run it again.",
    )


def _raised(body: str) -> tuple[str, str] | None:
    """The last exception's name and message."""
    found = _RAISED.findall(body[-20_000:])
    return (found[-1][0], found[-1][1]) if found else None


def _frame(body: str) -> tuple[str, int, str] | None:
    """Path, line and function of the innermost frame in the workspace; of any frame when none is there."""
    last = body.rpartition(_START)[2] if _START in body else body
    frames = [(path, int(line), function) for path, line, function in _FRAME.findall(last)]
    frames += [(path, int(line), function) for path, line, function, _ in _PYTEST.findall(last)]
    ours = [frame for frame in frames if not _ELSEWHERE.search(frame[0]) and frame[0] not in ("-c", "stdin")]
    return ours[-1] if ours else None
