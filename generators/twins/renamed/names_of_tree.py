"""Names that the modules of a package define."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

from ...python.source_tree import SourceTree

Function = ast.FunctionDef | ast.AsyncFunctionDef


def defined_names(module: ast.Module) -> set[str]:
    """Return functions, classes, module and class variables, attributes of ``self``, and keyword parameters."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.Module | ast.ClassDef):
            names |= {name for statement in node.body for name in _assigned(statement)}
        if isinstance(node, Function | ast.Lambda):
            names |= set(_parameters(node.args))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            names.add(node.attr)
    return names


def module_names(tree: SourceTree) -> set[str]:
    """Return the names of the package's folders and modules."""
    names: set[str] = set()
    for module in tree.modules():
        for part in tree.dotted_name(module.path).split("."):
            names.add(part)
    return names | {PurePosixPath(root).stem for root in tree.roots}


def outer_parameters(module: ast.Module) -> Iterator[set[str]]:
    """Yield the parameters of each function that is in no other function."""

    def visit(nodes: list[ast.AST]) -> Iterator[set[str]]:
        for node in nodes:
            if isinstance(node, Function):
                yield set(_parameters(node.args))
            elif not isinstance(node, ast.Lambda):
                yield from visit(list(ast.iter_child_nodes(node)))

    yield from visit([module])


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if item is not None:
            yield item.arg


def _assigned(statement: ast.stmt) -> Iterator[str]:
    """Yield the plain names that a statement of a module or class binds, also below ``if`` and ``try``."""
    if isinstance(statement, Function | ast.ClassDef):
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
