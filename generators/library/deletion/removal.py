"""``mode=remove``: a definition goes with every name that refers to it, until nothing in the tree is left hanging.

What refers to a removed name:

- an import, an entry of ``__all__`` or of a lazy table, an element of a module's list or dict, an annotation: it goes;
- a module's or class's own statement (an alias, a registration, ``y = wrap(x)``): it goes, and what it bound with it;
- code inside a function that only the failing tests run: the function joins the deletion;
- code inside any other function: its statement becomes ``raise NotImplementedError("name")``;
- a decorator, a default, a base class: what is built on the name joins the deletion, or the candidate is blocked.

In test files only what runs while they are imported is treated: a test that calls a removed name fails by itself.
Packaging metadata (entry points) stays: it belongs to the task, and a solution may not change it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...python.source import Span
from .edits import Edit
from .index import Function, Index, SourceFile
from .nodes import (
    DEFINITIONS,
    block,
    bound_by,
    dropped_nodes,
    element,
    targets,
    used_outside,
    within,
)
from .tables import annotation_edit, string_reference

MAX_ABSORBED = 6
MAX_CALLERS = 8
MAX_CALLER_LINES = 12
MAX_ABSORBED_LINES = 200

_COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


class Blocked(Exception):
    """The removal cannot be carried out without taking more than the feature: ``reason: detail``."""


@dataclass(frozen=True)
class Caller:
    """A statement that was replaced because it used a removed name."""

    path: str
    where: str
    text: str
    span: Span


@dataclass
class Closure:
    """The growing removal. ``tests_of`` and ``at_import`` are the baseline's, ``affected`` the target's own tests."""

    index: Index
    tests_of: Mapping[str, list[str]]
    at_import: set[str]
    affected: set[str]
    removed: set[str] = field(default_factory=set)
    statements: dict[str, dict[ast.stmt, None]] = field(default_factory=lambda: defaultdict(dict))
    items: dict[str, dict[ast.AST, set[int]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    edits: dict[str, list[Edit]] = field(default_factory=lambda: defaultdict(list))
    absorbed: list[tuple[str, str]] = field(default_factory=list)
    callers: list[Caller] = field(default_factory=list)
    restore: dict[str, None] = field(default_factory=dict)
    missing: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _absorbed_lines: int = 0
    _aliases: set[str] = field(default_factory=set)

    def remove(self, path: str, definitions: Iterable[ast.stmt], dotted: str) -> None:
        """Start with the definitions of one name, and follow. Raises Blocked."""
        for node in definitions:
            self.statements[path][node] = None
        self.removed.add(dotted)
        before = -1
        while before != self._size():
            before = self._size()
            for file in self.index.files.values():
                self._scan(file)

    def _size(self) -> int:
        parts = (self.statements, self.items, self.edits)
        return len(self.removed) + len(self._aliases) + sum(len(found) for part in parts for found in part.values())

    def _words(self) -> set[str]:
        """Every name under which something removed can be met."""
        return {name.rsplit(".", 1)[-1] for name in self.removed} | self._aliases

    def _scan(self, file: SourceFile) -> None:
        own = file.path in self.index.own
        if not own and not self.index.tree.is_test(file.path):
            return
        if not (self._words() & self.index.tree.word_index[file.path]):
            return
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ImportFrom):
                self._import(file, node, own)
            elif isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Store):
                name = self.index.resolve(file, node)
                if name in self.removed and not self.is_gone(file, node):
                    self._reference(file, node, name, own)
        if own:
            for constant in file.constants:
                if not self.is_gone(file, constant):
                    self._string(file, constant)

    def is_gone(self, file: SourceFile, node: ast.AST) -> bool:
        """Whether the node lies in something that goes already."""
        start, end = file.span(node)
        if any(first <= start and end <= last for (first, last), _ in self.edits[file.path]):
            return True
        gone, items, child = self.statements[file.path], self.items[file.path], node
        for parent in [node, *file.ancestors(node)]:
            if parent in gone:
                return True
            if parent in items and child in dropped_nodes(parent, items[parent]):
                return True
            child = parent
        return False

    # --- references -----------------------------------------------------------------------------------------

    def _import(self, file: SourceFile, node: ast.ImportFrom, own: bool) -> None:
        module = file.absolute(node)
        outside = file.function(node) is None
        if not own and not outside:
            return
        for number, alias in enumerate(node.names):
            if alias.name == "*":
                if not own:
                    self.missing[file.path] |= self._starred(module)
                continue
            if self.index.canonical(f"{module}.{alias.name}") not in self.removed or self.is_gone(file, node):
                continue
            local = alias.asname or alias.name
            self.items[file.path][node].add(number)
            if len(self.items[file.path][node]) == len(node.names):
                self.statements[file.path][node] = None
            if not own:
                self.missing[file.path].add(local)
            elif outside:
                self._aliases.add(local)
                self._restore(f"`{file.dotted}.{local}`, imported from `{module}`")

    def _starred(self, module: str) -> set[str]:
        """The removed names that ``from module import *`` used to bring."""
        shorts = {name.rsplit(".", 1)[-1] for name in self.removed}
        return {name for name in shorts if self.index.canonical(f"{module}.{name}") in self.removed}

    def _reference(self, file: SourceFile, node: ast.Name | ast.Attribute, name: str, own: bool) -> None:
        short = name.rsplit(".", 1)[-1]
        edit = annotation_edit(file, node)
        function = file.function(node)
        if edit is not None and (own or function is None):
            self.edits[file.path].append(edit)
        elif function is None:
            self._at_import(file, node, short, own)
        elif own and self._still_resolves(file, node, name) is False:
            owner = file.owner(function)
            if not self._absorb(file, function, owner):
                self._rewrite(file, function, owner, node, short)

    def _still_resolves(self, file: SourceFile, node: ast.AST, name: str) -> bool:
        """Whether a base class provides a removed attribute too, or may do so."""
        owner, _, short = name.rpartition(".")
        module, _, _ = owner.rpartition(".")
        if owner in self.index.modules or module not in self.index.modules:
            return False
        bases = self.index.lineage(owner)[1:]
        return any(
            base == "?" or (f"{base}.{short}" not in self.removed and short in self.index.members(base))
            for base in bases
        )

    def _at_import(self, file: SourceFile, node: ast.AST, short: str, own: bool) -> None:
        """The reference runs while the module is imported."""
        statement = file.statement(node)
        if isinstance(statement, DEFINITIONS):
            if not own:
                self._drop(file, statement)
            elif not self._absorb(file, statement, file.owner(statement)):
                raise Blocked(f"v0_built_on: {file.path}::{statement.name} is built on {short}")
            return
        if isinstance(statement, _COMPOUND):
            if own:
                raise Blocked(f"v0_references: {file.path}:{statement.lineno} decides by {short}")
            self.statements[file.path][statement] = None
            return
        display, number = element(file, node, statement)
        if display is None:
            self._drop(file, statement)
            return
        self.items[file.path][display].add(number)
        if own:
            parts = [" ".join(file.text(item).split()) for item in dropped_nodes(display, {number})]
            head = " ".join(file.text(statement).split())[:40].partition("=")[0].strip()
            self._restore(f"`{': '.join(parts)[:120]}` in `{head}` of `{file.dotted}`")

    def _drop(self, file: SourceFile, statement: ast.stmt) -> None:
        """A statement of a module or class goes; the names that it bound are removed too."""
        self.statements[file.path][statement] = None
        owner = file.owner(statement)
        scope = f"{file.dotted}.{owner.name}" if owner else file.dotted
        bound = [statement.name] if isinstance(statement, DEFINITIONS) else targets(statement)
        self.removed |= {f"{scope}.{name}" for name in bound}
        if file.path not in self.index.own:
            self.missing[file.path] |= set(bound) if owner is None else set()
        else:
            text = " ".join(file.text(statement).split())
            self._restore(f"`{text[:160]}` in `{scope}`")

    def _restore(self, line: str) -> None:
        self.restore.setdefault(line)

    def _string(self, file: SourceFile, node: ast.Constant) -> None:
        found = string_reference(self.index, file, node, self.removed)
        if found is None:
            return
        if isinstance(found, tuple):
            self.edits[file.path].append(found)
        else:
            display, number = element(file, node, file.statement(node))
            if display is None:
                self.statements[file.path][file.statement(node)] = None
            else:
                self.items[file.path][display].add(number)
            if found:
                self.removed.add(found)
        words = str(node.value).split()
        if isinstance(found, tuple):
            words = [word for word in words if not re.search(rf"\b{re.escape(word)}\b", found[1].decode())]
        lost = " ".join(words)
        what = "`__all__`" if "__all__" in file.text(file.statement(node)) else "the table of lazy names"
        self._restore(f"`{lost}` in {what} of `{file.dotted}`")

    # --- functions that use it ------------------------------------------------------------------------------

    def _absorb(self, file: SourceFile, node: Function | ast.ClassDef, owner: ast.ClassDef | None) -> bool:
        """Take a function or class along that only the failing tests run (or that is private and nobody runs)."""
        name = f"{owner.name}.{node.name}" if owner else node.name
        entity = f"{file.path}::{name}"
        prefix = f"{entity}." if isinstance(node, ast.ClassDef) else entity
        tests = {test for key, found in self.tests_of.items() if within(key, entity, prefix) for test in found}
        runs_early = any(within(key, entity, prefix) for key in self.at_import)
        private = node.name.startswith("_") and not node.name.startswith("__")
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        nested = any(isinstance(item, ast.If | ast.Try) for item in file.ancestors(node))
        if runs_early or nested or node.name.startswith("__") or not tests <= self.affected or not (tests or private):
            return False
        if len(self.absorbed) >= MAX_ABSORBED or self._absorbed_lines + lines > MAX_ABSORBED_LINES:
            return False
        body = owner.body if owner else file.tree.body
        twins = [item for item in body if isinstance(item, DEFINITIONS) and item.name == node.name]
        if node not in twins:
            return False
        for item in twins:
            self.statements[file.path][item] = None
        self._absorbed_lines += lines
        self.absorbed.append((file.path, name))
        self.removed.add(f"{file.dotted}.{name}")
        return True

    def _rewrite(
        self, file: SourceFile, function: Function, owner: ast.ClassDef | None, node: ast.AST, short: str
    ) -> None:
        """The statement that uses the name raises instead, with the rest of its block when that needs its results."""
        statement = file.statement(node)
        while isinstance(statement, ast.If) and file.text(statement).startswith("elif"):
            statement = file.statement(file.parents[statement])
        last = statement
        if bound_by(statement) & used_outside(function, statement):
            last = block(file, statement)[-1]
        lines = (last.end_lineno or last.lineno) - statement.lineno + 1
        where = f"{owner.name}.{function.name}" if owner else function.name
        if lines > MAX_CALLER_LINES or statement is function:
            raise Blocked(f"v0_callers: {lines} lines of {file.path}::{where} need {short}")
        span = (file.span(statement)[0], file.span(last)[1])
        text = file.source[file.source.rfind(b"\n", 0, span[0]) + 1 : span[1]].decode("utf-8", "replace")
        self.callers.append(Caller(file.path, where, text, span))
        self.edits[file.path].append((span, f'raise NotImplementedError("{short}")'.encode()))
        if len(self.callers) > MAX_CALLERS:
            raise Blocked(f"v0_callers: more than {MAX_CALLERS} statements need {short}")
