"""A finished removal as file contents: sources, test files, and the names that each test file lost."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable

from pyflakes import checker, messages

from ...base import Files
from ...python.source import Span, line_span, with_leading_comments
from .edits import Edit, items_without
from .index import SourceFile
from .nodes import DEFINITIONS
from .removal import Blocked, Closure

_SAMPLES = {"example", "examples", "benchmark", "benchmarks", "bench", "demo", "demos"}


def all_edits(closure: Closure) -> dict[str, list[Edit]]:
    """Every edit of the closure by file, blocks that would be left empty holding ``pass``."""
    found: dict[str, list[Edit]] = {}
    for path, file in closure.index.files.items():
        edits = list(closure.edits.get(path, []))
        gone = closure.statements.get(path, {})
        emptied = _emptied(file, gone)
        edits += [_deletion(file, node, passing=node in emptied) for node in gone]
        for node, numbers in closure.items.get(path, {}).items():
            if node not in gone:
                edits += _item_edits(file, node, numbers)
        if edits:
            found[path] = edits
    return found


def _emptied(file: SourceFile, gone: Iterable[ast.stmt]) -> set[ast.AST]:
    """The first statement of each block of which nothing is left."""
    known = set(gone)
    found: set[ast.AST] = set()
    for node in {file.parents[item] for item in known}:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, [])
            if block and not isinstance(node, ast.Module) and known.issuperset(block):
                found.add(block[0])
    return found


def _deletion(file: SourceFile, node: ast.stmt, *, passing: bool) -> Edit:
    span = statement_span(file, node)
    start, end = line_span(file.source, span)
    alone = not file.source[start : span[0]].strip() and not file.source[span[1] : end].split(b"#")[0].strip()
    if passing or not alone:
        return span, b"pass"
    if isinstance(node, DEFINITIONS):
        return with_leading_comments(file.source, span), b""
    return (start, end), b""


def statement_span(file: SourceFile, node: ast.stmt) -> Span:
    """A statement with its decorators."""
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
    """Names that the edit leaves without a definition: what pyflakes reports now and did not before."""
    return sorted((_undefined(path, after) - _undefined(path, before)).elements())


def _undefined(path: str, source: bytes) -> Counter[str]:
    try:
        found = checker.Checker(ast.parse(source), filename=path).messages
    except (SyntaxError, ValueError) as error:
        raise Blocked(f"v0_syntax: {path}: {error}") from error
    kinds = (messages.UndefinedName, messages.UndefinedExport, messages.UndefinedLocal)
    return Counter(str(item.message_args[0]) for item in found if isinstance(item, kinds))


def samples(closure: Closure) -> Files:
    """Example and benchmark programs that use a removed name leave whole: they show the feature at work."""
    index, found = closure.index, Files()
    for path, file in closure.index.files.items():
        if path in index.own or path.split("/")[0] not in _SAMPLES or index.tree.is_test(path):
            continue
        nodes = [node for node in ast.walk(file.tree) if isinstance(node, ast.Name | ast.Attribute)]
        if any(index.resolve(file, node) in closure.removed for node in nodes):
            found[path] = None
    return found


def stub_files(closure: Closure) -> dict[str, list[Edit]]:
    """Edits of ``.pyi`` files: definitions of removed names, imports and ``__all__`` entries of them."""
    found: dict[str, list[Edit]] = {}
    tree = closure.index.tree
    for path in tree.stub_files():
        file = SourceFile(path, (tree.root / path).read_bytes(), tree.dotted_name(path.removesuffix("i")))
        edits: list[Edit] = []
        gone: set[ast.stmt] = set()
        for node in ast.walk(file.tree):
            owner = file.owner(node)
            scope = f"{file.dotted}.{owner.name}" if owner else file.dotted
            if isinstance(node, DEFINITIONS) and f"{scope}.{node.name}" in closure.removed:
                gone.add(node)
            elif isinstance(node, ast.ImportFrom):
                targets = [closure.index.canonical(f"{file.absolute(node)}.{item.name}") for item in node.names]
                numbers = {number for number, target in enumerate(targets) if target in closure.removed}
                if len(numbers) == len(targets):
                    gone.add(node)
                elif numbers:
                    edits += _item_edits(file, node, numbers)
            elif isinstance(node, ast.List | ast.Tuple) and "__all__" in file.text(file.statement(node)):
                values = [getattr(item, "value", "") for item in node.elts]
                names = [closure.index.canonical(f"{file.dotted}.{value!s}") for value in values]
                numbers = {number for number, name in enumerate(names) if name in closure.removed}
                edits += _item_edits(file, node, numbers) if numbers else []
        emptied = _emptied(file, gone)
        edits += [_deletion(file, node, passing=node in emptied) for node in sorted(gone, key=file.span)]
        if edits:
            found[path] = edits
    return found
