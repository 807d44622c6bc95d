"""The outcome of a cell or a script that an interpreter ran: the traceback or the exception that ends it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..transcript.status_line import Status
from ..transcript.tracebacks import ends_with_traceback, is_traceback
from . import limits
from .error_kind_patterns import classify
from .error_sentences import TOOLS_OWN
from .wrappers import announced

_SCANS = re.compile(r"\bopen\(|\.read\(|read_text|readlines|\bcat\b|\.stdout|\.log\b|\.text\b", re.I)
_FRAME_OF_CELL = re.compile(r"<(?:stdin|string|cell|ipython|python)|Cell In|ipython-input|<ipython")
_SYNTAX = re.compile(
    r"^[ \t]*(?:Cell In|File|Input In)\b.*\n(?:.*\n)*?\s*(?:Syntax|Indentation|Tab)Error: [^\n]*\s*\Z", re.MULTILINE
)
_REPR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?:\([^\n]*\)|: [^\n]*|)\s*")
_WROTE = re.compile(r"(?:(?:execution )?(?:logs|output|stdout|result)s?)\W*:?", re.I)
_FIRMLY = re.compile(
    r"\W*(?:error (?:while|when|in|executing|calling|running)\b|(?:code |cell )?execution (?:failed|error)\W"
    r"|(?:execution|(?:your|the) (?:code|cell)|cell|code) (?:raised|failed|threw|crashed)\b"
    r"|error: \w+(?:error|exception)\b)",
    re.IGNORECASE,
)
_MAGIC = re.compile(r"\s*(?:!(?P<line>[^\n]+)|%%(?:bash|sh|script \w+)[^\n]*\n(?P<cell>.+))\s*\Z", re.DOTALL)
_REFUSED = re.compile(r"denied|not (?:allowed|permitted|running|available|enabled)|disabled|forbidden", re.IGNORECASE)
_RAISED = re.compile(r"\b\w*(?:Error|Exception|Interrupt|Exit)\b")
_OF_HARNESS = frozenset("tool_not_found invalid_args malformed_call timeout budget transport_error".split())
_TIMED_OUT = re.compile(
    r"\W*(?:\w+\W{1,3})?time-?out\W.{0,200}"
    r"|(?:\w+\.)*timeout(?:error|exception|expired)\W[^\n]*\b(?:code|cell|execution|command|took|ran|limit|\d+"
    r" ?s\w*)\b[^\n]*",
    re.IGNORECASE | re.DOTALL,
)
_INTERPRETERS = re.compile(
    r"\W*(?:error: )?(?:(?:code|cell) execution (?:failed|stopped|aborted)"
    r" (?:at|on|in|due|because)\b|(?:\w+\.)*Interpreter\w*Error\b)",
    re.IGNORECASE,
)
_QUOTED_LINE = re.compile(r'^ +File "[^\n]*", line \d+[^\n]*\n {4}(?P<code>\S[^\n]{5,})$', re.MULTILINE)
_OPENING = re.compile(
    r"(?:\w+\.)*(?:FileNotFound|Permission|IsADirectory|NotADirectory|UnicodeDecode|OS|Timeout)Error\b"
)
_BOTH = re.compile(r"\A\W{0,3}stdout\W{0,3}\n(?:.*\n)?\W{0,3}stderr\W{0,3}\n", re.DOTALL | re.IGNORECASE)
_FEW = 6


def command(arguments: Mapping[str, Any]) -> str:
    """The shell command that a cell is nothing but; '' for a cell of code."""
    found = next((_MAGIC.match(each) for each in arguments.values() if isinstance(each, str)), None)
    return (found["line"] or found["cell"]) if found is not None else ""


def kind_of(text: str, told: int = TOOLS_OWN, code: str = "") -> str:
    """What kind of failure of code it was: an exception, unless it never ran or the time was up."""
    code = code or classify(text)
    first = text.strip().partition("\n")[0]
    if ends_with_traceback(text) or is_traceback(text) or is_traceback(announced(text)):
        return "traceback"
    if limits.timed_out(first) or limits.timed_out(announced(text).strip()) or _TIMED_OUT.fullmatch(text):
        return "timeout"
    if _REPR.fullmatch(first) or (_RAISED.search(text) and "validation" not in text):
        return "traceback"
    if told == TOOLS_OWN and code in _OF_HARNESS:
        return code
    return "nonzero_exit" if _REFUSED.search(text) else "traceback"


def verdict(arguments: Mapping[str, Any], content: str, lines: Sequence[str], told: int, code: str) -> Status | None:
    """The outcome, unless the code printed what looks like one; ``None``: nothing says that it failed."""
    source = "\n".join(value for value in arguments.values() if isinstance(value, str))
    scans = _SCANS.search(source) is not None
    if sections := _BOTH.match(content):
        content = content[sections.end() :]
        lines = [line for line in content.splitlines() if line.strip()]
        if not lines:
            return None
    wrote = any(_WROTE.fullmatch(line.strip()) for line in lines[:1])
    text = content.strip("\n").rstrip()
    if (
        not wrote
        and (not scans or _FRAME_OF_CELL.search(text) or _quotes_source(text, source))
        and (
            is_traceback(text)
            or ends_with_traceback(text)
            or is_traceback(announced(text))
            or _SYNTAX.search(text[-4096:])
        )
    ):
        return Status("error", lines[-1][:600], code="traceback", message=lines[-1][:600])
    first = lines[0].strip()
    label = first.partition(":")[0]
    if f"{label}:" in source or first in source or len(lines) > _FEW:
        return None
    if limits.timed_out(first) or (len(lines) > 1 and limits.timed_out(lines[-1]) and not scans):
        return Status("timeout", first[:600], code="timeout", message=first[:600])
    labelled = (told == TOOLS_OWN or first.lower() == "error:" or _FIRMLY.match(first) is not None) and not (
        scans and told < TOOLS_OWN
    )
    raised = _REPR.fullmatch(first) and len(lines) == 1 and (not scans or first.endswith(")") or _OPENING.match(first))
    if raised or labelled or _INTERPRETERS.match(first):
        if code == "tool_not_found" and "tool" in source.lower():
            return None
        return Status(
            "error",
            first[:600],
            code=kind_of(text, told, code),
            message=first[:600],
        )
    return None


def _quotes_source(text: str, source: str) -> bool:
    """Whether a traceback shows a line of the code that was run."""
    return any(found["code"].strip() in source for found in _QUOTED_LINE.finditer(text[-4096:]))
