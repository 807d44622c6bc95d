"""The shape of a Python traceback at the end of a text."""

from __future__ import annotations

import re

_HEAD = "Traceback (most recent call last):"
_GROUP = "  + Exception Group Traceback (most recent call last):"
_LAST = re.compile(r"[A-Za-z_][\w.]*(?:: .*|:)?$")
_SYNTAX = re.compile(r'  File "[^\n]*", line \d+\n(?:[ \t][^\n]*\n)*(?:SyntaxError|IndentationError|TabError): [^\n]*')
_IPYTHON = re.compile(
    r"(?:-{20,}\n)?[\w.]+ +Traceback \(most recent call last\)\n.*\n[A-Za-z_][\w.]*: [^\n]*", re.DOTALL
)
_RULE = re.compile(r"[=\-_]{3}|\S+ (?:passed|failed)\b|FAILED |ERROR ")
_LOGGED = re.compile(r".*\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
_FRAME = re.compile(
    r'^ *File "(?!<|[^"\n]*(?:/usr/|site-packages/|dist-packages/|/lib/python))([^"\n]+)", line (\d{1,9})'
)
_SEARCHED = 64 * 1024


def ends_with_traceback(text: str) -> bool:
    """Return whether the text ends with a traceback: only its exception's message follows the frames.

    A traceback that a logger wrote (the line before it names a level) is a report and does not count.
    """
    return _start(text.rstrip()[-_SEARCHED:]) >= 0


def is_traceback(text: str) -> bool:
    """Return whether the text is a traceback and nothing else."""
    whole = text.strip("\n").rstrip()
    if _IPYTHON.fullmatch(whole):
        return True
    start = _start(whole) if len(whole) <= _SEARCHED else -1
    return start >= 0 and (start == 0 or whole.startswith((_HEAD, _GROUP)))


def named_lines(text: str) -> dict[str, list[int]]:
    """Return the files outside the standard library and installed packages in a traceback's frames, and their lines."""
    lines: dict[str, list[int]] = {}
    for row in text[-_SEARCHED:].splitlines():
        if frame := _FRAME.match(row):
            lines.setdefault(frame[1], []).append(int(frame[2]))
    return lines


def _start(text: str) -> int:
    """Return the position of the traceback at the end of a text; -1 when the text does not end with one."""
    at = max(text.rfind("\n" + _HEAD) + 1 if "\n" + _HEAD in text else -1, 0 if text.startswith(_HEAD) else -1)
    if at < 0:
        group = text.find(_GROUP)
        if group >= 0 and all(line.startswith("  ") for line in text[group:].splitlines()):
            return group
        tail = text[-4096:]
        syntax = list(_SYNTAX.finditer(tail))
        return len(text) - len(tail) + syntax[-1].start() if syntax and syntax[-1].end() == len(tail) else -1
    lines = text[at:].split("\n")
    frames = next((number for number, line in enumerate(lines[1:], 1) if not line.startswith(" ")), len(lines))
    if frames < 2 or frames == len(lines) or not lines[1].startswith('  File "') or not _LAST.match(lines[frames]):
        return -1
    if any(not line or _RULE.match(line) for line in lines[frames + 1 :]):
        return -1
    before = text[:at].rstrip("\n").rpartition("\n")[2]
    return -1 if _LOGGED.match(before) else at
