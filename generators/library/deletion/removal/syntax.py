"""Syntax trees: the list around a node, the names that a statement binds, the code that depends on them."""

from __future__ import annotations

import ast

from .source_file import DEFINITIONS, Function, SourceFile

_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)


def within(key: str, entity: str, prefix: str) -> bool:
    """Return whether a function of the test map is the entity, or a method of it if ``prefix`` ends with a dot."""
    return key == entity or (prefix.endswith(".") and key.startswith(prefix))


def dropped_nodes(node: ast.AST, numbers: set[int]) -> list[ast.AST]:
    """Return the items with these numbers of an import, list, tuple, set or dict; of a dict, key and value."""
    if isinstance(node, ast.ImportFrom):
        return [node.names[number] for number in numbers]
    if isinstance(node, ast.Dict):
        pairs = [(node.keys[number], node.values[number]) for number in numbers]
        return [item for pair in pairs for item in pair if item is not None]
    return [node.elts[number] for number in numbers]  # type: ignore[attr-defined]


def element(file: SourceFile, node: ast.AST, statement: ast.stmt) -> tuple[ast.AST | None, int]:
    """Return the innermost list, tuple, set or dict of the statement around ``node``, and the number of its item."""
    child = node
    for parent in file.ancestors(node):
        if parent is statement:
            break
        if isinstance(parent, _DISPLAYS) and isinstance(getattr(parent, "ctx", ast.Load()), ast.Load):
            unpacked = isinstance(statement, ast.Assign) and parent is statement.value and _unpacks(statement)
            if unpacked or isinstance(file.parents[parent], ast.Subscript):
                break
            if isinstance(parent, ast.Dict):
                pairs = zip(parent.keys, parent.values, strict=True)
                return parent, next(number for number, pair in enumerate(pairs) if child in pair)
            return parent, next(number for number, item in enumerate(parent.elts) if item is child)
        child = parent
    return None, 0


def _unpacks(statement: ast.Assign) -> bool:
    return any(isinstance(target, ast.Tuple | ast.List) for target in statement.targets)


def targets(statement: ast.stmt) -> list[str]:
    """Return the names that an assignment binds; ``x += y`` and ``x.y = z`` bind none."""
    if isinstance(statement, ast.Assign):
        nodes: list[ast.expr] = list(statement.targets)
    elif isinstance(statement, ast.AnnAssign):
        nodes = [statement.target]
    else:
        return []
    parts = [part for node in nodes for part in (node.elts if isinstance(node, ast.Tuple | ast.List) else [node])]
    return [node.id for node in parts if isinstance(node, ast.Name)]


def bound_by(statement: ast.stmt) -> set[str]:
    """Return the names that the statement binds, nested definitions included."""
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} | {
        item.name for item in ast.walk(statement) if isinstance(item, DEFINITIONS)
    }


def used_outside(function: Function, statement: ast.stmt) -> set[str]:
    """Return the names that the function loads outside the statement and does not bind there."""
    inside = set(ast.walk(statement))
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node not in inside]
    arguments = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)} | arguments
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - bound


def block(file: SourceFile, statement: ast.stmt) -> list[ast.stmt]:
    """Return the list of statements that this one is part of."""
    for _, value in ast.iter_fields(file.parents[statement]):
        if isinstance(value, list) and statement in value:
            return value
    return [statement]
