"""What becomes unused with deleted code: private helpers, constants and imports that nothing else mentions.

If they stayed, they would give half of the answer away: the helper's code, or what the solution is built from. Tables
of data stay all the same, since nobody can write them again. A name counts as mentioned if it occurs as a word anywhere
else, in code, strings or comments, so a removal is always safe.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from ...python.source import (
    Module,
    Span,
    assigned_name,
    items_without,
    line_span,
    node_span,
    parse_or_empty,
    with_leading_comments,
    words,
)
from ...python.source_tree import SourceTree

TABLE = 8
"""Fewest values of a table of data."""


@dataclass
class DeadCode:
    """Names that go besides the deleted code itself."""

    definitions: list[str] = field(default_factory=list)  # helpers and constants
    imports: list[str] = field(default_factory=list)  # names that an import bound
    spans: dict[str, list[Span]] = field(default_factory=dict)  # byte spans of both by file


def dead_after(tree: SourceTree, deleted: Mapping[str, list[Span]]) -> DeadCode:
    """Return what only the ``deleted`` spans (by file) needed, in all modules; a helper's helper goes too."""
    dead = DeadCode()
    modules = {module.path: module for module in tree.modules() if not module.path.endswith("__init__.py")}
    candidates = {(path, name): spans for path, item in modules.items() for name, spans in _private(item).items()}
    while True:
        cut = {path: [*deleted.get(path, []), *dead.spans.get(path, [])] for path in {*deleted, *dead.spans}}
        needed = words(b"\n".join(tree.python_files[path][a:b] for path, spans in cut.items() for a, b in spans))
        changed = False
        for (path, name), spans in list(candidates.items()):
            if name not in needed:
                continue
            outside = {**cut, path: [*cut.get(path, []), *spans]}
            if not tree.mentions(name, outside=outside):
                dead.definitions.append(name)
                source = modules[path].source
                dead.spans.setdefault(path, []).extend(with_leading_comments(source, span) for span in spans)
                del candidates[path, name]
                changed = True
        for path in [path for path in cut if path in modules]:
            changed |= _add_dead_imports(tree, modules[path], cut[path], dead)
        if not changed:
            return dead


def _private(module: Module) -> dict[str, list[Span]]:
    """Return ``_name`` functions, classes and plain assignments of the module and of its classes, without dunders."""
    spans_of: dict[str, list[Span]] = {}
    bodies = [module.root, *(item.body for item in module.definitions() if item.kind == "class")]
    for body in bodies:
        for item in module.definitions(body):
            spans_of.setdefault(item.name, []).append(item.span)
        for node in body.named_children:
            name = assigned_name(module, node)
            if name and not _is_table(module.text(node)):
                spans_of.setdefault(name, []).append(node_span(node))
    return {name: spans for name, spans in spans_of.items() if re.match(r"_[^_]", name)}


def _is_table(assignment: str) -> bool:
    """Return whether an assignment gives a container of at least TABLE values that are written out."""
    statement = parse_or_empty(assignment.encode()).body[:1]
    if not statement or not isinstance(statement[0], ast.Assign | ast.AnnAssign):
        return False
    nodes = [*ast.walk(statement[0])]
    computed = any(isinstance(node, ast.Lambda | ast.comprehension) for node in nodes)
    containers = any(isinstance(node, ast.Dict | ast.List | ast.Set | ast.Tuple) for node in nodes)
    return containers and not computed and sum(isinstance(node, ast.Constant) for node in nodes) >= TABLE


def _add_dead_imports(tree: SourceTree, module: Module, deleted: list[Span], dead: DeadCode) -> bool:
    """Add the imports of the module that only deleted code used to ``dead``; return whether there were any."""
    before = len(dead.imports)
    for node in module.statements():
        if node.type not in ("import_statement", "import_from_statement") or _inside(node_span(node), deleted):
            continue
        names = node.children_by_field_name("name")
        unused = [item for item in names if _only_in(tree, module, _bound_name(module, item), node, deleted)]
        unused = [item for item in unused if not _inside(node_span(item), deleted)]
        if not unused or b"noqa" in module.source[node.end_byte : line_span(module.source, node_span(node))[1]]:
            continue
        dead.imports += [_bound_name(module, item) for item in unused]
        remaining = [item for item in names if item not in unused and not _inside(node_span(item), deleted)]
        spans = dead.spans.setdefault(module.path, [])
        if not remaining:
            spans.append(line_span(module.source, node_span(node)))
        else:
            numbers = {number for number, item in enumerate(names) if item not in remaining}
            spans += [span for span, _ in items_without(b"", [node_span(item) for item in names], numbers)]
    return len(dead.imports) > before


def _inside(span: Span, outer: list[Span]) -> bool:
    return any(start <= span[0] and span[1] <= end for start, end in outer)


def _only_in(tree: SourceTree, module: Module, name: str, node: Node, deleted: list[Span]) -> bool:
    """Return whether deleted code used ``name`` and nothing else does, neither here nor through a re-export."""
    word = rf"\b{re.escape(name)}\b".encode()
    pieces = [module.source[a:b] for a, b in deleted if not _inside((a, b), [node_span(node)])]
    if not any(re.search(word, piece) for piece in pieces):
        return False
    if module.path in tree.mentions(name, outside={module.path: [*deleted, node_span(node)]}):
        return False
    stem = module.path.removesuffix(".py").rsplit("/", 1)[-1]
    imported = re.compile(rf"\bfrom\s+[\w.]*\b{re.escape(stem)}\s+import\s+(\([^)]*\)|[^\n]*)")
    attribute = re.compile(rf"\b{re.escape(stem)}\.{re.escape(name)}\b")
    for path, source in tree.python_files.items():
        text = source.decode("utf-8", "replace") if path != module.path else ""
        if attribute.search(text):
            return False
        if any(re.search(rf"\b{re.escape(name)}\b|\*", match.group(1)) for match in imported.finditer(text)):
            return False
    return True


def _bound_name(module: Module, node: Node) -> str:
    """Return the name that an import binds: its alias, or the first part of a dotted name."""
    alias = node.child_by_field_name("alias") if node.type == "aliased_import" else None
    return module.text(alias) if alias is not None else module.text(node).split(".")[0]
