"""Patches for ``git apply``: made from two sets of contents, applied to trees that no agent has touched."""

from __future__ import annotations

import base64
import difflib
import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ....errors import PatchError, SnapshotError
from ..source.repositories import run_git

CONTEXT = 3


def make_patch(old: Mapping[str, bytes | None], new: Mapping[str, bytes | None]) -> str:
    """Return a patch from ``old`` to ``new``: maps of relative paths to contents, absent or None for no file.

    The same contents give the same text. Content that is not UTF-8 text becomes a binary patch. Raises PatchError for
    a path that leaves the tree.
    """
    parts: list[str] = []
    for path in sorted({*old, *new}):
        before, after = old.get(path), new.get(path)
        if before != after:
            _check_path(path)
            parts.extend(_file_patch(path, before, after))
    return "".join(parts)


def _check_path(path: str) -> None:
    if path.startswith("/") or any(part in ("", ".", "..", ".git") for part in path.split("/")):
        raise PatchError(f"{path!r} is not a path inside a tree; use a relative path without .. and .git")


def _file_patch(path: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    old_name, new_name = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    yield f"diff --git {old_name} {new_name}\n"
    if before is None:
        yield "new file mode 100644\n"
    if after is None:
        yield "deleted file mode 100644\n"
    mode = " 100644" if before is not None and after is not None else ""
    yield f"index {_blob(before)}..{_blob(after)}{mode}\n"
    texts = _text(before), _text(after)
    if texts[0] is None or texts[1] is None:
        yield "GIT binary patch\n"
        yield from _binary(after or b"")
        yield from _binary(before or b"")
    elif texts != ("", ""):
        yield f"--- {'/dev/null' if before is None else old_name + _tab(path)}\n"
        yield f"+++ {'/dev/null' if after is None else new_name + _tab(path)}\n"
        yield from _hunks(_lines(texts[0]), _lines(texts[1]))


def _tab(path: str) -> str:
    """Return the tab with which git ends a name in a header when the name contains a space."""
    return "\t" if " " in path else ""


def _text(content: bytes | None) -> str | None:
    """Return the content as text that can be stored in a JSON row; None when it is binary."""
    if content is None:
        return ""
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _lines(text: str) -> list[str]:
    """Return the lines with their ends; only ``\\n`` ends a line."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _blob(content: bytes | None) -> str:
    """Return git's object name of the content; zeros for no file."""
    if content is None:
        return "0" * 40
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _quoted(name: str) -> str:
    """Quote a name as git does, in C style, when it has control characters, quotes, backslashes or other than ASCII."""
    raw = name.encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in raw):
        return name
    special = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
    characters = (f"\\{special[b]}" if b in special else chr(b) if 32 <= b < 127 else f"\\{b:03o}" for b in raw)
    return f'"{"".join(characters)}"'


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the hunks, computed without the common head and tail because most edits are small."""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    middle = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail])
    opcodes = [("equal", 0, head, 0, head)] if head else []
    opcodes += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in middle.get_opcodes()]
    opcodes += [("equal", len(old) - tail, len(old), len(new) - tail, len(new))] if tail else []
    middle.opcodes = opcodes  # type: ignore[attr-defined]  # what get_opcodes has cached, to be grouped
    for group in middle.get_grouped_opcodes(CONTEXT):
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        yield f"@@ -{_range(a, b)} +{_range(c, d)} @@\n"
        for tag, i, j, k, m in group:
            yield from (_line(" " if tag == "equal" else "-", line) for line in old[i:j])
            yield from (_line("+", line) for line in new[k:m] if tag != "equal")


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of equal lines at the start."""
    return next(
        (number for number, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]),
        min(len(old), len(new)),
    )


def _range(start: int, stop: int) -> str:
    length = stop - start
    first = start + 1 if length else start
    return f"{first}" if length == 1 else f"{first},{length}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _binary(content: bytes) -> Iterator[str]:
    """Yield a ``literal`` of a binary patch: deflated, base85, 52 bytes a line with the length as a letter."""
    yield f"literal {len(content)}\n"
    packed = zlib.compress(content, 9)
    for start in range(0, len(packed), 52):
        chunk = packed[start : start + 52]
        size = chr(ord("A") + len(chunk) - 1) if len(chunk) <= 26 else chr(ord("a") + len(chunk) - 27)
        yield f"{size}{base64.b85encode(chunk, pad=True).decode()}\n"
    yield "\n"


def apply_patch(tree: Path, patch: str) -> None:
    """Apply ``patch`` to a trusted tree in place, completely or not at all. Raises PatchError.

    Changed files are replaced, never written through a hard link.
    """
    if not patch.strip():
        return
    options = ["-c", "core.autocrlf=false", "-c", "apply.whitespace=nowarn", "apply", "--whitespace=nowarn", "-"]
    no_repository = {"GIT_DIR": os.path.join(os.path.realpath(tree), ".no-repository")}
    try:
        run_git(tree, *options, variables=no_repository, data=patch.encode("utf-8", "surrogateescape"))
    except SnapshotError as error:
        raise PatchError(f"patch does not apply: {error}") from error
