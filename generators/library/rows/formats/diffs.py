"""Git diffs of rows: the check that a text is one, the way back from a diff, and its division into files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
_HEADER = re.compile(r'^diff --git "?a/(.+?)"? "?b/(.+?)"?$', re.MULTILINE)
_HUNK = re.compile(r"^@@ -(\d+(?:,\d+)?) \+(\d+(?:,\d+)?) @@(.*)$")
_CHANGE = re.compile(r"^(@@ -\d|GIT binary patch|Binary files |rename to |new file mode |deleted file mode |new mode )")
_SWAPPED = {
    "new file mode ": "deleted file mode ",
    "deleted file mode ": "new file mode ",
    "old mode ": "new mode ",
    "new mode ": "old mode ",
    "rename from ": "rename to ",
    "rename to ": "rename from ",
}
_TEST = re.compile(r"(^|/)(tests?|Tests?|testing|e2e)/|(^|/)(test_[^/]*|[^/]*_tests?|tests?|conftest)\.py$")


def is_diff(text: str) -> bool:
    """Return whether a text holds a git diff with at least one change."""
    parts = _files(text)
    return bool(parts) and all(any(map(_CHANGE.match, part.splitlines())) for part in parts)


def is_test(path: str) -> bool:
    """Return whether a path is that of a test, or of data beside tests."""
    return bool(_TEST.search(path))


def select(patch: str, includes: Callable[[str], bool]) -> str:
    """Return the parts of a git diff whose new path ``includes`` accepts."""
    return "".join(part for part in _files(patch) if (header := _HEADER.match(part)) and includes(header[2]))


def reverse(patch: str) -> str:
    """Return the git diff that takes a text diff back. Raises ValueError for a binary change, which cannot be reversed.

    Removed lines come before added ones in each group of changes, as git writes them.
    """
    return "".join("".join(f"{line}\n" for line in _reversed_file(part)) for part in _files(patch))


def _files(patch: str) -> list[str]:
    return [part for part in _FILE.split(patch) if part.startswith("diff --git ")]


def _reversed_file(part: str) -> Iterator[str]:
    lines = part.removesuffix("\n").split("\n")
    start = next((number for number, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    yield from _reversed_header(lines[:start])
    group: tuple[list[str], list[str]] = ([], [])
    target = group[0]
    for line in lines[start:]:
        if line.startswith("\\"):  # belongs to the line before it
            if group[0] or group[1]:
                target.append(line)
            else:
                yield line
        elif line.startswith(("+", "-")):
            target = group[0] if line.startswith("+") else group[1]
            target.append(("-" if line.startswith("+") else "+") + line[1:])
        else:
            yield from (*group[0], *group[1])
            group = ([], [])
            target = group[0]
            hunk = _HUNK.match(line)
            yield f"@@ -{hunk[2]} +{hunk[1]} @@{hunk[3]}" if hunk else line
    yield from (*group[0], *group[1])


def _reversed_header(lines: list[str]) -> Iterator[str]:
    """Yield the lines above the first hunk for the way back."""
    old = new = ""
    renamed = _HEADER.match(lines[0])
    if any(line.startswith(("GIT binary patch", "Binary files")) for line in lines):
        raise ValueError(f"a binary change of {renamed[2] if renamed else lines[0]}")
    yield f"diff --git a/{renamed[2]} b/{renamed[1]}" if renamed and '"' not in lines[0] else lines[0]
    modes = [line for line in lines[1:] if line.startswith(("old mode ", "new mode ", "rename "))]
    for line in lines[1:]:
        if line.startswith("--- "):
            old = line[4:]
        elif line.startswith("+++ "):
            new = line[4:]
        elif line in modes:
            continue
        elif index := re.fullmatch(r"index ([0-9a-f]+)\.\.([0-9a-f]+)( \d+)?", line):
            yield from _swapped(modes)
            modes = []
            yield f"index {index[2]}..{index[1]}{index[3] or ''}"
        else:
            yield from _swapped([line])
    yield from _swapped(modes)
    if old and new:
        yield f"--- {re.sub('^b/', 'a/', new)}"
        yield f"+++ {re.sub('^a/', 'b/', old)}"


def _swapped(lines: list[str]) -> list[str]:
    """Return header lines for the way back; git wants old before new and from before to."""
    swapped = []
    for line in lines:
        name = next((name for name in _SWAPPED if line.startswith(name)), "")
        swapped.append(_SWAPPED[name] + line[len(name) :] if name else line)
    return sorted(swapped, key=lambda line: (line.startswith("rename"), line.startswith(("new mode", "rename to"))))
