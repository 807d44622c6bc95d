"""Questions about syntax trees that the removal asks: what holds a node, what a statement binds, what goes with it."""

from __future__ import annotations

import ast

from .index import Function, SourceFile

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)


def within(key: str, entity: str, prefix: str) -> bool:
    """Whether a function of the test map is the entity, or (``prefix`` ends with a dot) a method of it."""
    return key == entity or (prefix.endswith(".") and key.startswith(prefix))


def dropped_nodes(node: ast.AST, numbers: set[int]) -> list[ast.AST]:
    """The items of an import or a display with these numbers, both halves of a dict's pair."""
    if isinstance(node, ast.ImportFrom):
        return [node.names[number] for number in numbers]
    if isinstance(node, ast.Dict):
        pairs = [(node.keys[number], node.values[number]) for number in numbers]
        return [item for pair in pairs for item in pair if item is not None]
    return [node.elts[number] for number in numbers]  # type: ignore[attr-defined]


def element(file: SourceFile, node: ast.AST, statement: ast.stmt) -> tuple[ast.AST | None, int]:
    """The innermost list, tuple, set or dict of the statement that holds ``node``, and the item's number in it."""
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
    """Names that a simple statement binds for the first time; ``x += y`` and ``x.y = z`` bind none."""
    if isinstance(statement, ast.Assign):
        nodes: list[ast.expr] = list(statement.targets)
    elif isinstance(statement, ast.AnnAssign):
        nodes = [statement.target]
    else:
        return []
    found = [part for node in nodes for part in (node.elts if isinstance(node, ast.Tuple | ast.List) else [node])]
    return [node.id for node in found if isinstance(node, ast.Name)]


def bound_by(statement: ast.stmt) -> set[str]:
    """Names that the statement binds, nested definitions included."""
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} | {
        item.name for item in ast.walk(statement) if isinstance(item, DEFINITIONS)
    }


def used_outside(function: Function, statement: ast.stmt) -> set[str]:
    """Names that the rest of the function loads and does not bind."""
    inside = set(ast.walk(statement))
    rest = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node not in inside]
    arguments = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    bound = {node.id for node in rest if isinstance(node.ctx, ast.Store)} | arguments
    return {node.id for node in rest if isinstance(node.ctx, ast.Load)} - bound


def block(file: SourceFile, statement: ast.stmt) -> list[ast.stmt]:
    """The statements among which this one stands."""
    for _, value in ast.iter_fields(file.parents[statement]):
        if isinstance(value, list) and statement in value:
            return value
    return [statement]
