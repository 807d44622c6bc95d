"""Imports of a module as a whole, which the rules for single names do not cover."""

from __future__ import annotations

import ast

from .....errors import Rejected
from ..removal.closure import Closure
from ..removal.source_file import SourceFile


def drop_imports(closure: Closure, home: SourceFile) -> None:
    """Add what imports the module ``home`` itself, all its names, or a name that it imported, to the removal.

    Raises Rejected when another module gets a name through ``home`` that is defined elsewhere, or when an import of
    several modules cannot be split.
    """
    index = closure.index
    for file in index.files.values():
        is_source = file.path in index.own
        if file is home or not (is_source or index.tree.is_test(file.path)):
            continue
        for node in ast.walk(file.tree):
            outside = file.function(node) is None if isinstance(node, ast.stmt) else False
            if not is_source and not outside:
                continue
            if isinstance(node, ast.ImportFrom) and file.absolute(node) == home.dotted:
                _import_from(closure, home, file, node, is_source)
            elif isinstance(node, ast.Import) and any(_names(alias, home) for alias in node.names):
                _import_module(closure, home, file, node, is_source)


def _names(alias: ast.alias, home: SourceFile) -> bool:
    return alias.name == home.dotted


def _import_from(closure: Closure, home: SourceFile, file: SourceFile, node: ast.ImportFrom, is_source: bool) -> None:
    """Treat ``from home import *`` and names that ``home`` only passes on."""
    if node.names[0].name == "*":
        closure.statements[file.path][node] = None
        if is_source:
            closure.restore.setdefault(f"`from {home.dotted} import *` in `{file.dotted}`")
        else:
            closure.lost_names[file.path] |= {name for name in home.names if not name.startswith("_")}
        return
    for number, alias in enumerate(node.names):
        if closure.index.canonical(f"{home.dotted}.{alias.name}") in closure.removed:
            continue
        if is_source:
            raise Rejected("v0_references", f"{file.path}:{node.lineno} imports {alias.name} through {home.dotted}")
        closure.items[file.path][node].add(number)
        closure.lost_names[file.path].add(alias.asname or alias.name)
        if len(closure.items[file.path][node]) == len(node.names):
            closure.statements[file.path][node] = None


def _import_module(closure: Closure, home: SourceFile, file: SourceFile, node: ast.Import, is_source: bool) -> None:
    """Treat ``import home``, which becomes an import of its package, and ``import home as name``."""
    alias = next(item for item in node.names if _names(item, home))
    package = home.dotted.rpartition(".")[0]
    if is_source:
        closure.restore.setdefault(f"`{file.text(node)}` in `{file.dotted}`")
    if package and alias.asname is None:
        closure.edits[file.path].append((file.span(alias), package.encode()))
    elif len(node.names) == 1:
        closure.statements[file.path][node] = None
        if not is_source:
            closure.lost_names[file.path].add(alias.asname or alias.name)
    else:
        raise Rejected("v0_references", f"{file.path}:{node.lineno} imports {home.dotted} together with others")
