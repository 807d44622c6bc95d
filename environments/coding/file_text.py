"""Text of one file: its numbered lines, and the replacement of a piece that occurs once."""

from __future__ import annotations

from ...errors import ToolError
from ...hints.transcript.text_match import first_difference
from ..tool_protocol import OUTPUT, capped

_QUOTED = 200


def numbered(path: str, data: bytes, start: int, end: int | None) -> str:
    """Return the lines from ``start`` to ``end`` (from 1, both included) with their numbers, as many as fit.

    Raises ToolError for a binary file and for lines that the file does not have.
    """
    if b"\0" in data[:8192]:
        raise ToolError("io_error", f"{path} is a binary file of {len(data)} bytes")
    lines = data.decode("utf-8", "replace").splitlines()
    if end is not None and end < start:
        raise ToolError("invalid_args", f"read_file: end_line {end} is before start_line {start}")
    if start > max(len(lines), 1):
        count = f"{len(lines)} line{'s' * (len(lines) != 1)}"
        raise ToolError("invalid_args", f"read_file: {path} has {count}; start_line {start} is past the end")
    end = min(len(lines) if end is None else end, len(lines))
    shown: list[str] = []
    size = 0
    for number in range(start, end + 1):
        line = f"{number}\t{lines[number - 1]}"
        size += len(line) + 1
        if shown and size > OUTPUT:
            omitted = f"[... lines {number}-{end} of {len(lines)} not shown; ask with start_line={number} ...]"
            return "\n".join([*shown, omitted])
        shown.append(capped(line.encode()))
    return "\n".join(shown) if lines else "(empty file)"


def replaced(path: str, data: bytes, old: bytes, new: bytes) -> tuple[bytes, int]:
    """Return the edited file and the line of the edit. Raises ToolError unless ``old`` occurs once."""
    count = data.count(old)
    if count != 1:
        raise ToolError("edit_failed", _no_single_match(path, data, old, count))
    return data.replace(old, new), data[: data.index(old)].count(b"\n") + 1


def _no_single_match(path: str, data: bytes, old: bytes, count: int) -> str:
    """Return why an edit found no place, or several, and what would help."""
    if count:
        places: list[str] = []
        at = data.find(old)
        while at >= 0 and len(places) < 10:
            places.append(str(data[:at].count(b"\n") + 1))
            at = data.find(old, at + 1)
        return f"old occurs {count} times in {path} (lines {', '.join(places)}); add lines around it to make it unique"
    if b"\r\n" in data and old.replace(b"\n", b"\r\n") in data:
        return f"old is not in {path}: its lines end in CR LF"
    lines = [line.removesuffix("\r") for line in data.decode("utf-8", "replace").removesuffix("\n").split("\n")]
    text = old.decode("utf-8", "replace")
    different = first_difference(lines, text)
    if different is None:
        return f"old is not in {path}; read_file shows the exact text"
    yours = f"line {different.number} of old is {different.text_line[:_QUOTED]!r}"
    if different.file_line is None:
        return f"old is not in {path}; the file ends with line {len(lines)}, and {yours}"
    near = f"old is not in {path}; the nearest line is {different.place}: {different.file_line[:_QUOTED]!r}"
    return f"{near}; {yours}" if "\n" in text.strip("\n") else near
