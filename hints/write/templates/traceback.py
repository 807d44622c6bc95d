"""Hint for a program that ends with an exception."""

from __future__ import annotations

import re

from ....models import Hint
from ...transcript.call_effects import workspace_path
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote

_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^[ \t|]*File "([^"\n]+)", line (\d{1,9})(?:, in (\S+))?', re.MULTILINE)
_PYTEST = re.compile(r"^((?:[\w.@+-]+/)*[\w.@+-]+\.py):(\d{1,9}): (?:in (\S+)|(\w[\w.]*))", re.MULTILINE)
_RAISED = re.compile(
    r"^(?:E   +|[ |+-]*)?((?:\w+\.)*\w*(?:Error|Exception|Warning|Interrupt|Exit|Failed))(?:: (.*))?$", re.MULTILINE
)
_ELSEWHERE = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python[\d.]*|python[\d.]+/lib)/|^<|^/usr/|^/opt/")


def hint(context: ErrorContext) -> Hint | None:
    """Name the exception and the line of the innermost frame in the workspace."""
    body = context.call.body if context.call is not None and context.call.body else context.error.evidence
    raised = _raised(body) or _raised(context.error.message)
    frame = _frame(body)
    what = f"{raised[0]}: {raised[1]}".rstrip(": ") if raised else "an exception"
    if frame is None:
        return make_hint("traceback", f"It raises {quote(what, 140)}.", "Find the cause before you run it again.")
    path, line, function = frame
    inside = f" (in {function})" if function and function != "<module>" else ""
    return make_hint(
        "traceback",
        f"{quote(what, 140)} comes from line {line} of {quote(workspace_path(path), 120)}{inside}.",
        "Read that line and fix the cause there, before you run it again.",
    )


def _raised(body: str) -> tuple[str, str] | None:
    """Return the last exception's name and message."""
    matches = _RAISED.findall(body[-20_000:])
    return (matches[-1][0], matches[-1][1]) if matches else None


def _frame(body: str) -> tuple[str, int, str] | None:
    """Return path, line and function of the innermost frame in the workspace.

    Of chained tracebacks the last one counts; frames of the standard library and installed packages are skipped.
    """
    last = body.rpartition(_START)[2] if _START in body else body
    frames = [(path, int(line), function) for path, line, function in _FRAME.findall(last)]
    frames += [(path, int(line), function) for path, line, function, _ in _PYTEST.findall(last)]
    ours = [frame for frame in frames if not _ELSEWHERE.search(frame[0]) and frame[0] not in ("-c", "stdin")]
    return ours[-1] if ours else None
