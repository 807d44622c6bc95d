"""Edits that take statements out of their blocks without moving any other byte but indentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from .....python.indentation import line_move
from .....python.source import Edit, line_span, with_leading_comments
from ...removal.file_edits import deletions
from ...removal.source_file import SourceFile


def without_statements(file: SourceFile, statements: Iterable[ast.stmt]) -> list[Edit]:
    """Return the edits that delete statements with the comments above them; an emptied block gets ``pass``."""
    edits = deletions(file, statements)
    for span, replacement in list(edits):
        if not replacement:
            edits.append((with_leading_comments(file.source, (span[0], span[1] - 1)), b""))
    return edits


def clause_start(file: SourceFile, before: ast.stmt, first: ast.stmt, word: str) -> int:
    """Return the first byte of the line with ``word`` (``else``, ``finally``) between two statements."""
    start = line_span(file.source, file.span(before))[1]
    match = re.compile(rf"(?m)^[ \t]*{word}\b".encode()).search(file.source, start, file.span(first)[0])
    assert match is not None, f"{file.path}:{first.lineno} is in a block that {word} starts"
    return match.start()


def without_clause(file: SourceFile, before: ast.stmt, block: Sequence[ast.stmt], word: str) -> Edit:
    """Return the edit that deletes the clause ``word`` with its block; ``before`` is the statement above it."""
    start = clause_start(file, before, block[0], word)
    return (start, line_span(file.source, file.span(block[-1]))[1]), b""


def dedented(file: SourceFile, block: Sequence[ast.stmt], outer: ast.stmt) -> list[Edit]:
    """Return the edits that move a block to the indentation of the statement around it."""
    before, after = file.indentation(block[0]), file.indentation(outer)
    inside = _lines_inside_strings(block)
    edits: list[Edit] = []
    position = _start(file, block)
    first = file.source.count(b"\n", 0, position) + 1
    last = block[-1].end_lineno or block[-1].lineno
    for number in range(first, last + 1):
        end = file.source.find(b"\n", position)
        line = file.source[position : end if end >= 0 else len(file.source)]
        (begin, stop), text = line_move(line, before, after)
        if (stop > begin or text) and number not in inside:
            edits.append(((position + begin, position + stop), text))
        position += len(line) + 1
    return edits


def _start(file: SourceFile, block: Sequence[ast.stmt]) -> int:
    """Return the first byte of a block's lines, with the comments directly above it."""
    return with_leading_comments(file.source, file.span(block[0]))[0]


def _lines_inside_strings(block: Sequence[ast.stmt]) -> set[int]:
    """Return the numbers of lines that start inside a string, whose indentation is part of its value."""
    strings = [
        node
        for statement in block
        for node in ast.walk(statement)
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
    ]
    return {line for node in strings for line in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)}


def unwrapped(file: SourceFile, outer: ast.stmt, blocks: Sequence[Sequence[ast.stmt]]) -> list[Edit]:
    """Return the edits that leave only ``blocks`` of a compound statement, at its own indentation."""
    edits = [edit for block in blocks for edit in dedented(file, block, outer)]
    position = line_span(file.source, file.span(outer))[0]
    for block in blocks:
        start = _start(file, block)
        edits.append(((position, start), b""))
        position = line_span(file.source, file.span(block[-1]))[1]
    end = line_span(file.source, file.span(outer))[1]
    return [*edits, ((position, end), b"")] if end > position else edits


def is_elif(file: SourceFile, node: ast.If) -> bool:
    """Return whether an ``if`` is a branch of another one, written ``elif``."""
    return file.text(node).startswith("elif")


def without_body(file: SourceFile, node: ast.If) -> list[Edit]:
    """Return the edits that take the first branch out of an ``if`` that has others."""
    following = node.orelse[0]
    if isinstance(following, ast.If) and is_elif(file, following):
        first = file.span(node)[0]
        return [((first, file.span(following)[0] + (0 if is_elif(file, node) else len("el"))), b"")]
    if is_elif(file, node):
        start = line_span(file.source, file.span(node))[0]
        return [((start, clause_start(file, node.body[-1], following, "else")), b"")]
    return unwrapped(file, node, [node.orelse])


def without_branch(file: SourceFile, node: ast.If) -> list[Edit]:
    """Return the edits that take the first branch out of an ``if``, which goes as a whole when it has no other."""
    if node.orelse:
        return without_body(file, node)
    if is_elif(file, node):
        return [(line_span(file.source, file.span(node)), b"")]
    return without_statements(file, [node])
