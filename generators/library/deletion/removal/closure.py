"""The removal as it grows: from one definition to everything that refers to it.

What happens to a reference depends on where it is:

- an import, an entry of ``__all__`` or of a lazy table, an element of a module's list or dict, an annotation: deleted;
- a statement of a module or class (an alias, a registration, ``y = wrap(x)``): deleted with the names that it binds;
- code in a function that only the failing tests run: the function is absorbed into the deletion;
- code in any other function: the statement is replaced by ``raise NotImplementedError("name")``;
- a decorator, a default, a base class: what is built on the name is absorbed, or the candidate is rejected.

In test files only code that runs on import is treated: a test that calls a removed name fails by itself. Packaging
metadata (entry points) stays, since a solution may not change it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .....errors import Rejected
from ....python.source import Edit
from ..statement import ReplacedCaller
from .name_index import UNKNOWN, NameIndex
from .source_file import (
    DEFINITIONS,
    Function,
    SourceFile,
    block,
    bound_by,
    dropped_nodes,
    element,
    targets,
    used_outside,
    within,
)
from .string_references import annotation_edit, string_reference

MAX_ABSORBED = 6
MAX_CALLERS = 8
MAX_CALLER_LINES = 12
MAX_ABSORBED_LINES = 200

_COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


@dataclass
class Closure:
    """The growing removal. Dictionaries without another comment are keyed by file.

    ``items`` are deleted from imports, lists, tuples, sets and dicts, by number.
    """

    index: NameIndex
    """The names of the tree."""
    tests_of: Mapping[str, list[str]]
    """The tests of each function, from the baseline."""
    at_import: set[str]
    """Functions that run outside tests, from the baseline."""
    affected: set[str]
    """Tests that run the target."""
    removed: set[str] = field(default_factory=set)
    """Dotted names whose definition is deleted."""
    statements: dict[str, dict[ast.stmt, None]] = field(default_factory=lambda: defaultdict(dict))  # to be deleted
    items: dict[str, dict[ast.AST, set[int]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    edits: dict[str, list[Edit]] = field(default_factory=lambda: defaultdict(list))
    """All other edits."""
    absorbed: list[tuple[str, str]] = field(default_factory=list)
    """File and name of functions and classes."""
    callers: list[ReplacedCaller] = field(default_factory=list)
    """Statements that are replaced."""
    restore: dict[str, None] = field(default_factory=dict)
    """Lines of the statement about names that must be restored, in order."""
    lost_names: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Names that test files can no longer import."""
    _absorbed_lines: int = 0
    _aliases: set[str] = field(default_factory=set)

    def remove(self, path: str, definitions: Iterable[ast.stmt], dotted: str) -> None:
        """Delete the definitions of one name, then treat references until none is left. Raises Rejected."""
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
        return len(self.removed) + len(self._aliases) + sum(len(entries) for part in parts for entries in part.values())

    def _words(self) -> set[str]:
        """Return every name under which something removed can occur."""
        return {name.rsplit(".", 1)[-1] for name in self.removed} | self._aliases

    def _scan(self, file: SourceFile) -> None:
        is_source = file.path in self.index.own
        if not is_source and not self.index.tree.is_test(file.path):
            return
        if not (self._words() & self.index.tree.word_index[file.path]):
            return
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ImportFrom):
                self._import(file, node, is_source)
            elif isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Store):
                name = self.index.resolve(file, node)
                if name in self.removed and not self.is_deleted(file, node):
                    self._reference(file, node, name, is_source)
        if is_source:
            for constant in file.constants:
                if not self.is_deleted(file, constant):
                    self._string(file, constant)

    def is_deleted(self, file: SourceFile, node: ast.AST) -> bool:
        """Return whether the node is part of something that is deleted or replaced already."""
        start, end = file.span(node)
        if any(first <= start and end <= last for (first, last), _ in self.edits[file.path]):
            return True
        statements, items, child = self.statements[file.path], self.items[file.path], node
        for parent in [node, *file.ancestors(node)]:
            if parent in statements:
                return True
            if parent in items and child in dropped_nodes(parent, items[parent]):
                return True
            child = parent
        return False

    # --- references -----------------------------------------------------------------------------------------

    def _import(self, file: SourceFile, node: ast.ImportFrom, is_source: bool) -> None:
        module = file.absolute(node)
        outside = file.function(node) is None
        if not is_source and not outside:
            return
        for number, alias in enumerate(node.names):
            if alias.name == "*":
                if not is_source:
                    self.lost_names[file.path] |= self._starred(module)
                continue
            if self.index.canonical(f"{module}.{alias.name}") not in self.removed or self.is_deleted(file, node):
                continue
            local = alias.asname or alias.name
            self.items[file.path][node].add(number)
            if len(self.items[file.path][node]) == len(node.names):
                self.statements[file.path][node] = None
            if not is_source:
                self.lost_names[file.path].add(local)
            elif outside:
                self._aliases.add(local)
                self.restore.setdefault(f"`{file.dotted}.{local}`, imported from `{module}`")

    def _starred(self, module: str) -> set[str]:
        """Return the removed names that ``from module import *`` used to bind."""
        shorts = {name.rsplit(".", 1)[-1] for name in self.removed}
        return {name for name in shorts if self.index.canonical(f"{module}.{name}") in self.removed}

    def _reference(self, file: SourceFile, node: ast.Name | ast.Attribute, name: str, is_source: bool) -> None:
        short = name.rsplit(".", 1)[-1]
        edit = annotation_edit(file, node)
        function = file.function(node)
        if edit is not None and (is_source or function is None):
            self.edits[file.path].append(edit)
        elif function is None:
            self._at_import(file, node, short, is_source)
        elif is_source and not self._still_resolves(name):
            owner = file.owner(function)
            if not self._absorb(file, function, owner):
                self._replace(file, function, owner, node, short)

    def _still_resolves(self, name: str) -> bool:
        """Return whether a base class provides a removed attribute too, or may do so."""
        owner, _, short = name.rpartition(".")
        module, _, _ = owner.rpartition(".")
        if owner in self.index.modules or module not in self.index.modules:
            return False
        bases = self.index.lineage(owner)[1:]
        return any(
            base == UNKNOWN or (f"{base}.{short}" not in self.removed and short in self.index.members(base))
            for base in bases
        )

    def _at_import(self, file: SourceFile, node: ast.AST, short: str, is_source: bool) -> None:
        """Treat a reference that runs while the module is imported."""
        statement = file.statement(node)
        if isinstance(statement, DEFINITIONS):
            if not is_source:
                self._drop(file, statement)
            elif not self._absorb(file, statement, file.owner(statement)):
                raise Rejected("v0_built_on", f"{file.path}::{statement.name} is built on {short}")
            return
        if isinstance(statement, _COMPOUND):
            if is_source:
                raise Rejected("v0_references", f"{file.path}:{statement.lineno} decides by {short}")
            self.statements[file.path][statement] = None
            return
        display, number = element(file, node, statement)
        if display is None:
            self._drop(file, statement)
            return
        self.items[file.path][display].add(number)
        if is_source:
            parts = [" ".join(file.text(item).split()) for item in dropped_nodes(display, {number})]
            head = " ".join(file.text(statement).split())[:40].partition("=")[0].strip()
            self.restore.setdefault(f"`{': '.join(parts)[:120]}` in `{head}` of `{file.dotted}`")

    def _drop(self, file: SourceFile, statement: ast.stmt) -> None:
        """Delete a statement of a module or class, and remove the names that it binds."""
        self.statements[file.path][statement] = None
        scope = file.scope_name(statement)
        bound = [statement.name] if isinstance(statement, DEFINITIONS) else targets(statement)
        self.removed |= {f"{scope}.{name}" for name in bound}
        if file.path in self.index.own:
            text = " ".join(file.text(statement).split())
            self.restore.setdefault(f"`{text[:160]}` in `{scope}`")
        elif scope == file.dotted:
            self.lost_names[file.path] |= set(bound)

    def _string(self, file: SourceFile, node: ast.Constant) -> None:
        reference = string_reference(self.index, file, node, self.removed)
        if reference is None:
            return
        statement = file.statement(node)
        names = str(node.value).split()
        if isinstance(reference, tuple):
            self.edits[file.path].append(reference)
            remaining = reference[1].decode()
            names = [word for word in names if not re.search(rf"\b{re.escape(word)}\b", remaining)]
        else:
            display, number = element(file, node, statement)
            if display is None:
                self.statements[file.path][statement] = None
            else:
                self.items[file.path][display].add(number)
            if reference:
                self.removed.add(reference)
        table = "`__all__`" if "__all__" in file.text(statement) else "the table of lazy names"
        self.restore.setdefault(f"`{' '.join(names)}` in {table} of `{file.dotted}`")

    # --- functions that use it ------------------------------------------------------------------------------

    def _absorb(self, file: SourceFile, node: Function | ast.ClassDef, owner: ast.ClassDef | None) -> bool:
        """Delete a function or class too if only the failing tests run it, or if it is private and no test does."""
        name = f"{owner.name}.{node.name}" if owner else node.name
        entity = f"{file.path}::{name}"
        prefix = f"{entity}." if isinstance(node, ast.ClassDef) else entity
        tests = {test for key, running in self.tests_of.items() if within(key, entity, prefix) for test in running}
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

    def _replace(
        self, file: SourceFile, function: Function, owner: ast.ClassDef | None, node: ast.AST, short: str
    ) -> None:
        """Let the statement raise, together with the rest of its block when that needs the statement's results."""
        statement = file.statement(node)
        while isinstance(statement, ast.If) and file.text(statement).startswith("elif"):
            statement = file.statement(file.parents[statement])
        last = statement
        if bound_by(statement) & used_outside(function, statement):
            last = block(file, statement)[-1]
        lines = (last.end_lineno or last.lineno) - statement.lineno + 1
        where = f"{owner.name}.{function.name}" if owner else function.name
        if lines > MAX_CALLER_LINES or statement is function:
            raise Rejected("v0_callers", f"{lines} lines of {file.path}::{where} need {short}")
        span = (file.span(statement)[0], file.span(last)[1])
        text = file.source[file.source.rfind(b"\n", 0, span[0]) + 1 : span[1]].decode("utf-8", "replace")
        self.callers.append(ReplacedCaller(file.path, where, text))
        self.edits[file.path].append((span, f'raise NotImplementedError("{short}")'.encode()))
        if len(self.callers) > MAX_CALLERS:
            raise Rejected("v0_callers", f"more than {MAX_CALLERS} statements need {short}")
