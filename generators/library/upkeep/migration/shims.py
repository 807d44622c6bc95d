"""Shims: ``try`` statements that import from a dependency, with a branch for versions that lack the other's names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....python.source import Edit, line_span, with_leading_comments
from ...deletion.partial.rewriting.blocks import unwrapped
from ...deletion.removal.source_file import SourceFile
from .installed import Installed

_ERRORS = {"ImportError", "ModuleNotFoundError"}


@dataclass(frozen=True)
class Shim:
    """One shim of a file, with the branch that fails with the installed version."""

    dependency: str  # the canonical name of the distribution
    file: SourceFile  # the file
    node: ast.Try  # the statement
    old: Sequence[ast.stmt]  # the branch that only an older version has everything for

    def edits(self) -> list[Edit]:
        """Return the edits that leave only the old branch, without comments above it: they name the versions."""
        first = self.file.span(self.old[0])
        comments = with_leading_comments(self.file.source, first)[0], line_span(self.file.source, first)[0]
        edits = unwrapped(self.file, self.node, [self.old])
        return [*edits, (comments, b"")] if comments[1] > comments[0] else edits


def shims(file: SourceFile, installed: Installed) -> Iterator[Shim]:
    """Yield the shims of a file whose old branch needs names that the installed version lacks."""
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.Try) or len(node.handlers) != 1 or node.orelse or node.finalbody:
            continue
        handler = node.handlers[0]
        caught = {item.id for item in ast.walk(handler.type) if isinstance(item, ast.Name)} if handler.type else set()
        if not caught or not caught <= _ERRORS or not _bound(node.body) or _bound(node.body) != _bound(handler.body):
            continue
        branches = [(node.body, handler.body), (handler.body, node.body)]
        for old, new in branches:
            missing = {installed.owners[top] for top in _missing(file, old, installed)}
            if len(missing) == 1 and not _missing(file, new, installed):
                yield Shim(missing.pop(), file, node, old)


def _bound(block: Sequence[ast.stmt]) -> set[str]:
    """Return the names that a block of imports and assignments binds; empty for any other block."""
    names: set[str] = set()
    for item in block:
        if isinstance(item, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in item.names}
        elif isinstance(item, ast.Assign) and all(isinstance(target, ast.Name) for target in item.targets):
            names |= {target.id for target in item.targets if isinstance(target, ast.Name)}
        else:
            return set()
    return names


def _missing(file: SourceFile, block: Sequence[ast.stmt], installed: Installed) -> set[str]:
    """Return the top-level modules of dependencies from which a block imports something that they lack."""
    imported: list[tuple[str, str]] = []
    for item in block:
        if isinstance(item, ast.Import):
            imported += [(alias.name, "") for alias in item.names]
        elif isinstance(item, ast.ImportFrom) and not item.level:
            imported += [(item.module or "", alias.name) for alias in item.names]
    tops = ((module.split(".")[0], module, name) for module, name in imported)
    return {top for top, module, name in tops if top in installed.owners and installed.lacks(module, name)}
