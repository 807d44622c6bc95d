"""A finished removal as edits of files: sources, test files, stub files and sample programs."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable

from pyflakes import checker, messages

from .....errors import Rejected
from ....base import Files
from ....python.source import Edit, Span, items_without, line_span, with_leading_comments
from .closure import Closure
from .source_file import DEFINITIONS, SourceFile

_SAMPLE_FOLDERS = {"example", "examples", "benchmark", "benchmarks", "bench", "demo", "demos"}


def all_edits(closure: Closure) -> dict[str, list[Edit]]:
    """Return every edit of the closure by file; blocks that would be empty get ``pass``."""
    result: dict[str, list[Edit]] = {}
    for path, file in closure.index.files.items():
        edits = list(closure.edits.get(path, []))
        deleted = closure.statements.get(path, {})
        edits += deletions(file, deleted)
        for node, numbers in closure.items.get(path, {}).items():
            if node not in deleted:
                edits += _item_edits(file, node, numbers)
        if edits:
            result[path] = edits
    return result


def deletions(file: SourceFile, statements: Iterable[ast.stmt]) -> list[Edit]:
    """Return the edits that delete the statements; the first of a block that would be empty becomes ``pass``."""
    deleted = dict.fromkeys(statements)
    first_of_empty: set[ast.AST] = set()
    for node in {file.parents[item] for item in deleted}:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, [])
            if block and not isinstance(node, ast.Module) and deleted.keys() >= set(block):
                first_of_empty.add(block[0])
    return [_deletion(file, node, passing=node in first_of_empty) for node in deleted]


def _deletion(file: SourceFile, node: ast.stmt, *, passing: bool) -> Edit:
    span = _statement_span(file, node)
    start, end = line_span(file.source, span)
    alone = not file.source[start : span[0]].strip() and not file.source[span[1] : end].split(b"#")[0].strip()
    if passing or not alone:
        return span, b"pass"
    if isinstance(node, DEFINITIONS):
        return with_leading_comments(file.source, span), b""
    return (start, end), b""


def _statement_span(file: SourceFile, node: ast.stmt) -> Span:
    """Return the span of a statement with its decorators."""
    start, end = file.span(node)
    if isinstance(node, DEFINITIONS) and node.decorator_list:
        start = file.source.rfind(b"@", 0, min(file.span(item)[0] for item in node.decorator_list))
    return start, end


def _item_edits(file: SourceFile, node: ast.AST, numbers: set[int]) -> list[Edit]:
    if isinstance(node, ast.ImportFrom):
        spans = [file.span(alias) for alias in node.names]
    elif isinstance(node, ast.Dict):
        keys = [key if key is not None else value for key, value in zip(node.keys, node.values, strict=True)]
        spans = [(file.span(key)[0], file.span(value)[1]) for key, value in zip(keys, node.values, strict=True)]
    else:
        spans = [file.span(item) for item in node.elts]  # type: ignore[attr-defined]
    return items_without(file.source, spans, numbers, is_tuple=isinstance(node, ast.Tuple))


def undefined_names(path: str, before: bytes, after: bytes) -> list[str]:
    """Return the names that pyflakes reports as undefined after the edit and not before. Raises Rejected."""
    return sorted((_undefined(path, after) - _undefined(path, before)).elements())


def _undefined(path: str, source: bytes) -> Counter[str]:
    try:
        reports = checker.Checker(ast.parse(source), filename=path).messages
    except (SyntaxError, ValueError) as error:
        raise Rejected("v0_syntax", f"{path}: {error}") from error
    kinds = (messages.UndefinedName, messages.UndefinedExport, messages.UndefinedLocal)
    return Counter(str(item.message_args[0]) for item in reports if isinstance(item, kinds))


def deleted_samples(closure: Closure) -> Files:
    """Return the example and benchmark programs that use a removed name; they are deleted because they show its use."""
    index, result = closure.index, Files()
    for path, file in index.files.items():
        if path in index.own or path.split("/")[0] not in _SAMPLE_FOLDERS or index.tree.is_test(path):
            continue
        nodes = [node for node in ast.walk(file.tree) if isinstance(node, ast.Name | ast.Attribute)]
        if any(index.resolve(file, node) in closure.removed for node in nodes):
            result[path] = None
    return result


def stub_file_edits(closure: Closure) -> dict[str, list[Edit]]:
    """Return the edits of ``.pyi`` files: they lose removed definitions, imports and ``__all__`` entries."""
    result: dict[str, list[Edit]] = {}
    tree = closure.index.tree
    for path in tree.stub_files():
        file = SourceFile(path, tree.read(path), tree.dotted_name(path.removesuffix("i")))
        edits: list[Edit] = []
        deleted: set[ast.stmt] = set()
        for node in ast.walk(file.tree):
            if isinstance(node, DEFINITIONS) and f"{file.scope_name(node)}.{node.name}" in closure.removed:
                deleted.add(node)
            elif isinstance(node, ast.ImportFrom):
                targets = [closure.index.canonical(f"{file.absolute(node)}.{item.name}") for item in node.names]
                numbers = {number for number, target in enumerate(targets) if target in closure.removed}
                if len(numbers) == len(targets):
                    deleted.add(node)
                elif numbers:
                    edits += _item_edits(file, node, numbers)
            elif isinstance(node, ast.List | ast.Tuple) and "__all__" in file.text(file.statement(node)):
                values = [getattr(item, "value", "") for item in node.elts]
                names = [closure.index.canonical(f"{file.dotted}.{value!s}") for value in values]
                numbers = {number for number, name in enumerate(names) if name in closure.removed}
                edits += _item_edits(file, node, numbers) if numbers else []
        edits += deletions(file, sorted(deleted, key=file.span))
        if edits:
            result[path] = edits
    return result
