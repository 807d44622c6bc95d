"""The final diff as the page shows it: the content of each changed file, against its base where there is one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal

from ...models import FileChange
from .safe_text import Meter, Text

Base = Callable[[str], str | None]
"""Function from a path of the workspace to its text before the episode; it returns None for a path without text."""

MAX_LINES = 400
"""Lines of one file's diff that are shown."""
MAX_FILES = 100
"""Files that are shown."""
MAX_BYTES = 1 << 20
"""Bytes of the largest file that is compared."""
_MATCHED = 1000
"""Lines that are matched one by one: matching is quadratic, and the agent chooses the lines."""
_CONTEXT = 3
"""Equal lines that are shown around a change."""
_Kind = Literal["added", "removed", "same", "gap"]
_Row = tuple[_Kind, int | None, int | None, str]


@dataclass(frozen=True)
class Line:
    """One line of a diff; ``old`` and ``new`` are its numbers in the two files."""

    kind: _Kind
    old: int | None
    new: int | None
    text: Text


@dataclass(frozen=True)
class Changed:
    """One path of the diff. A file that is not shown has no lines, and a ``note`` that says why."""

    path: Text
    what: str
    note: Text
    added: int = 0
    removed: int = 0
    lines: list[Line] = field(default_factory=list)
    left_out: int = 0


def changes(diff: Sequence[FileChange], base: Base | None, meter: Meter) -> list[Changed]:
    """Return the first ``MAX_FILES`` entries of a frozen diff; without a base, a file is shown as it is at the end."""
    return [_changed(change, base, meter) for change in diff[:MAX_FILES]]


def tree_base(tree: Path) -> Base:
    """Return a function that reads the pristine workspace at ``tree``, and None for a path that leads out of it."""
    root = tree.resolve()

    def read(path: str) -> str | None:
        try:
            file = (root / path).resolve()
            if not file.is_relative_to(root) or not file.is_file() or file.stat().st_size > MAX_BYTES:
                return None
            return file.read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):  # a name that is too long or holds a null character
            return None

    return read


def _changed(change: FileChange, base: Base | None, meter: Meter) -> Changed:
    path = meter.show(change.path, 400)
    if change.kind == "refused":
        return Changed(path, "refused", meter.show(change.reason or "not graded", 400))
    before = base(change.path) if base is not None else None
    after = "" if change.kind == "deleted" else _content(change.content)
    if after is None:
        return Changed(path, "changed", Text("not text: not shown"))
    if base is None:
        what, note = ("deleted", Text()) if change.kind == "deleted" else ("changed", Text("as it is at the end"))
        rows: list[_Row] = [("same", None, number, line) for number, line in enumerate(after.splitlines(), 1)]
    else:
        what = "deleted" if change.kind == "deleted" else "new" if before is None else "changed"
        note = Text()
        rows = list(_rows((before or "").splitlines(), after.splitlines()))
    shown = rows[: MAX_LINES if meter.remaining > 0 else 0]
    lines = [Line(kind, old, new, meter.show(text, 500)) for kind, old, new, text in shown]
    meter.spend(40 * len(lines))
    kinds = [row[0] for row in rows]
    return Changed(path, what, note, kinds.count("added"), kinds.count("removed"), lines, len(rows) - len(shown))


def _content(content: str | None) -> str | None:
    """Return the text of a file; None for one that is binary or too large."""
    if content is None or len(content) > 2 * MAX_BYTES:
        return None
    try:
        text = base64.b64decode(content, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    return None if "\0" in text else text


def _rows(old: Sequence[str], new: Sequence[str]) -> Iterator[_Row]:
    """Yield removed, added and nearby lines with their numbers, and a gap between hunks."""
    shorter = min(len(old), len(new))
    first = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    last = next((i for i in range(shorter - first) if old[-1 - i] != new[-1 - i]), shorter - first)
    start, stop = max(0, first - _CONTEXT), max(0, last - _CONTEXT)
    old, new = old[start : len(old) - stop], new[start : len(new) - stop]
    for number, group in enumerate(_groups(old, new, first - start, last - stop)):
        if number:
            yield "gap", None, None, ""
        for tag, a, a_end, b, b_end in group:
            if tag == "equal":
                yield from (("same", start + i + 1, start + b + i - a + 1, old[i]) for i in range(a, a_end))
                continue
            yield from (("removed", start + i + 1, None, old[i]) for i in range(a, a_end))
            yield from (("added", None, start + i + 1, new[i]) for i in range(b, b_end))


_Opcode = tuple[str, int, int, int, int]


def _groups(old: Sequence[str], new: Sequence[str], head: int, tail: int) -> list[list[_Opcode]]:
    """Return the hunks. Files that are too long to match are one hunk between ``head`` and ``tail`` equal lines."""
    if max(len(old), len(new)) <= _MATCHED:
        return [list(group) for group in SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT)]
    a, b = len(old) - tail, len(new) - tail
    return [
        [("equal", 0, head, 0, head), ("replace", head, a, head, b), ("equal", a, len(old), b, len(new))],
    ]
