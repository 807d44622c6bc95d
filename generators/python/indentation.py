"""Lines of a block that go to another indentation, whatever tabs and blanks both are made of."""

from __future__ import annotations

import os

from .source import Edit


def line_move(line: bytes, before: bytes, after: bytes) -> Edit:
    """Return the edit that takes a line of a block from the indentation ``before`` to ``after``.

    A line that is indented in another way is a comment or continues the line above, so that its indentation is free.
    """
    lead = line[: len(line) - len(line.lstrip(b" \t\f"))]
    first = lead.rfind(b"\f") + 1  # columns count from the last form feed on
    if not line.strip():
        return (0, 0), b""
    if not lead[first:].startswith(before):
        width = min(max(len(before) - len(after), 0), len(lead) - first)
        return (first, first + width), after[len(before) :]
    common = len(os.path.commonprefix([before, after]))
    return (first + common, first + len(before)), after[common:]


def moved_lines(lines: bytes, before: bytes, after: bytes) -> bytes:
    """Return whole lines of a block at the indentation ``after`` in place of ``before``."""
    moved = []
    for line in lines.splitlines(keepends=True):
        (start, end), text = line_move(line, before, after)
        moved.append(line[:start] + text + line[end:])
    return b"".join(moved)
