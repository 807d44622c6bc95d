"""The difference between two versions of a file as edits, and what it leaves without a use."""

from __future__ import annotations

import difflib

from ......errors import Rejected
from .....base import Files
from .....python.source import Edit, Span, apply_edits, words
from .....python.source_tree import SourceTree
from ...cascade import DeadCode, dead_after
from ...removal.file_edits import undefined_names


def tidied(tree: SourceTree, path: str, after: bytes, *, keep_helpers: bool) -> Files:
    """Return the changed files: ``path`` as ``after``, without private helpers and imports that lost their last use.

    Raises Rejected when ``after`` uses a name that is not defined any more.
    """
    before = tree.read(path)
    names = undefined_names(path, before, after)
    if names:
        raise Rejected("v0_undefined", f"{path} still needs {', '.join(names)}")
    dead = _dead_after(tree, path, before, after) if not keep_helpers else DeadCode()
    if not dead.spans:
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


def _dead_after(tree: SourceTree, path: str, before: bytes, after: bytes) -> DeadCode:
    """Return what only deleted lines needed; a changed line counts as deleted unless its new form needs the name."""
    spans, new_lines = _changes(before, after)
    dead = dead_after(tree, {path: spans})
    if words(new_lines).isdisjoint([*dead.definitions, *dead.imports]):
        return dead
    return dead_after(tree, {path: deleted_lines(before, after)})


def _changes(before: bytes, after: bytes) -> tuple[list[Span], bytes]:
    """Return the spans of deleted and changed lines of ``before``, and the new form of the changed ones."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = _starts(old)
    changes = [code for code in _stripped_opcodes(old, new) if code[0] in ("delete", "replace")]
    lines = b"".join(line for _, _, _, first, last in changes for line in new[first:last])
    return [(starts[first], starts[last]) for _, first, last, _, _ in changes], lines


def changed_lines(before: bytes, after: bytes) -> list[Span]:
    """Return the spans of the lines of ``before`` that are deleted or changed in more than their indentation."""
    return _changes(before, after)[0]


def deleted_lines(before: bytes, after: bytes) -> list[Span]:
    """Return the spans of the lines of ``before`` that ``after`` has in no form, whatever their indentation."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = _starts(old)
    return [
        (starts[first], starts[last]) for kind, first, last, _, _ in _stripped_opcodes(old, new) if kind == "delete"
    ]


def _stripped_opcodes(old: list[bytes], new: list[bytes]) -> list[tuple[str, int, int, int, int]]:
    before, after = ([line.strip() for line in lines] for lines in (old, new))
    return list(difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes())


def _starts(lines: list[bytes]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts
