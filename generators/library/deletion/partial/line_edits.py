"""The difference between two versions of a file as edits, and what it leaves without a use."""

from __future__ import annotations

import difflib

from .....errors import Rejected
from ....base import Files
from ....python.source import Edit, Span, apply_edits
from ....python.source_tree import SourceTree
from ..cascade import dead_after
from ..removal.file_edits import undefined_names


def tidied(tree: SourceTree, path: str, after: bytes, *, keep_helpers: bool) -> Files:
    """Return the changed files: ``path`` as ``after``, without private helpers and imports that lost their last use.

    Raises Rejected when ``after`` uses a name that is not defined any more.
    """
    before = tree.read(path)
    names = undefined_names(path, before, after)
    if names:
        raise Rejected("v0_undefined", f"{path} still needs {', '.join(names)}")
    dead = dead_after(tree, {path: deleted_lines(before, after)}) if not keep_helpers else None
    if dead is None or not dead.spans:
        return {path: after}
    edits: dict[str, list[Edit]] = {file: [(span, b"") for span in spans] for file, spans in dead.spans.items()}
    edits[path] = [*edits.get(path, []), *line_edits(before, after)]
    files: Files = {file: apply_edits(tree.read(file), changes) for file, changes in edits.items()}
    needed = [name for file, text in files.items() if text for name in undefined_names(file, tree.read(file), text)]
    return {path: after} if needed else files


def line_edits(before: bytes, after: bytes) -> list[Edit]:
    """Return edits by whole lines that turn ``before`` into ``after``."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = _starts(old)
    return [
        ((starts[first], starts[last]), b"".join(new[a:b]))
        for kind, first, last, a, b in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def deleted_lines(before: bytes, after: bytes) -> list[Span]:
    """Return the spans of the lines of ``before`` that ``after`` has in no form, whatever their indentation."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = _starts(old)
    matcher = difflib.SequenceMatcher(None, [line.strip() for line in old], [line.strip() for line in new], False)
    codes = matcher.get_opcodes()
    return [(starts[first], starts[last]) for kind, first, last, _, _ in codes if kind == "delete"]


def _starts(lines: list[bytes]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts
