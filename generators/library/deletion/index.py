"""Who refers to what: every Python file of a tree with its names resolved, as far as the text alone tells.

Names are followed through imports, re-exports, star imports and module attributes, and ``self.x``, ``cls.x`` and
``super().x`` through the bases that the tree defines. Attributes of other objects are not: nothing says what they are.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import sys
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from ...python.source import Span
from ...python.source_tree import SourceTree

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_UNKNOWN = "?"


class SourceFile:
    """One file that parses: its syntax tree with parents, byte spans, and what its names stand for."""

    def __init__(self, path: str, source: bytes, dotted: str) -> None:
        self.path, self.source, self.dotted = path, source, dotted
        self.tree = ast.parse(source)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self._starts = [0]
        for line in source.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self.imports: dict[str, str] = {}
        self.exports: dict[str, str] = {}
        self.stars: list[str] = []
        self.names: set[str] = set()
        self.classes: dict[str, ast.ClassDef] = {}
        self._bind()

    def span(self, node: ast.AST) -> Span:
        start = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode("utf-8", "replace")

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def scopes(self, node: ast.AST) -> Iterator[ast.AST]:
        """Functions and classes whose body holds ``node``, innermost first; decorators and defaults lie outside."""
        child = node
        for parent in self.ancestors(node):
            inside = isinstance(parent, ast.Lambda) or (
                isinstance(parent, (*_FUNCTIONS, ast.ClassDef)) and child in parent.body
            )
            if inside:
                yield parent
            child = parent

    def function(self, node: ast.AST) -> Function | None:
        """The outermost function whose body holds ``node``: nothing there runs before somebody calls it."""
        found = [scope for scope in self.scopes(node) if isinstance(scope, _FUNCTIONS)]
        return found[-1] if found else None

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose body holds ``node`` directly."""
        parent = next((item for item in self.ancestors(node) if isinstance(item, (*_FUNCTIONS, ast.ClassDef))), None)
        return parent if isinstance(parent, ast.ClassDef) else None

    def statement(self, node: ast.AST) -> ast.stmt:
        return next(item for item in [node, *self.ancestors(node)] if isinstance(item, ast.stmt))

    def absolute(self, node: ast.ImportFrom) -> str:
        """The module that an import names, its leading dots resolved."""
        if not node.level:
            return node.module or ""
        parts = self.dotted.split(".")
        if not self.path.endswith(("__init__.py", "__init__.pyi")):
            parts = parts[:-1]
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def _bind(self) -> None:
        for node in ast.walk(self.tree):
            outside = self.function(node) is None
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.split(".")[0]
                    self.imports[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    target = f"{self.absolute(node)}.{alias.name}"
                    if alias.name == "*":
                        self.stars.append(self.absolute(node))
                    else:
                        self.imports[alias.asname or alias.name] = target
                        if outside:
                            self.exports[alias.asname or alias.name] = target
            elif not outside or self.owner(node) is not None:
                continue
            elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                self.names.add(node.name)
                if isinstance(node, ast.ClassDef):
                    self.classes[node.name] = node
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.names.add(node.id)

    @functools.cached_property
    def constants(self) -> list[ast.Constant]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


class Index:
    """All files of one SourceTree, resolved lazily; ``of`` shares it within the process."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self.files: dict[str, SourceFile] = {}
        for path, source in tree.python_files.items():
            try:
                self.files[path] = SourceFile(path, source, tree.dotted_name(path))
            except (SyntaxError, ValueError):
                continue
        self.modules = {file.dotted: file for path, file in self.files.items()}
        self.own = {path for path in self.files if tree.is_source(path) and not tree.is_test(path)}

    @classmethod
    def of(cls, tree: SourceTree) -> Index:
        if tree not in _indexes:
            _indexes[tree] = cls(tree)
        return _indexes[tree]

    def canonical(self, dotted: str) -> str:
        """The name where it is defined, re-exports followed."""
        for _ in range(12):
            parts = dotted.split(".")
            for cut in range(len(parts) - 1, 0, -1):
                file = self.modules.get(".".join(parts[:cut]))
                if file is None:
                    continue
                if parts[cut] in file.names:
                    return dotted
                target = file.exports.get(parts[cut]) or self._starred(file, parts[cut])
                # A submodule of the same name is what an import of its own package's name finds first.
                if target is None or target == dotted:
                    return dotted
                dotted = ".".join([target, *parts[cut + 1 :]])
                break
            else:
                return dotted
        return dotted

    def _starred(self, file: SourceFile, name: str, depth: int = 0) -> str | None:
        for module in file.stars:
            other = self.modules.get(module)
            if other is None or depth > 5:
                continue
            if name in other.names or name in other.exports:
                return f"{module}.{name}"
            found = self._starred(other, name, depth + 1)
            if found:
                return found
        return None

    def resolve(self, file: SourceFile, node: ast.AST) -> str:
        """The canonical dotted name that a Name or Attribute stands for, empty when it cannot be told."""
        found = self._resolve(file, node)
        return self.canonical(found) if found else ""

    def _resolve(self, file: SourceFile, node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return self._name(file, node)
        if not isinstance(node, ast.Attribute):
            return ""
        member = self._member(file, node)
        if member:
            return member
        base = self._resolve(file, node.value)
        return f"{base}.{node.attr}" if base else ""

    def _name(self, file: SourceFile, node: ast.Name) -> str:
        nearest = True
        for scope in file.scopes(node):
            if isinstance(scope, ast.ClassDef):
                if nearest and node.id in _class_names(scope):
                    return f"{file.dotted}.{scope.name}.{node.id}"
            elif node.id in _local_names(scope):
                return ""
            nearest = False
        if node.id in file.imports:
            return file.imports[node.id]
        if node.id in file.names:
            return f"{file.dotted}.{node.id}"
        return self._starred(file, node.id) or ""

    def _member(self, file: SourceFile, node: ast.Attribute) -> str:
        """``self.x``, ``cls.x``, ``super().x`` as the attribute of the class that defines it."""
        value = node.value
        is_super = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
        if not is_super and not isinstance(value, ast.Name):
            return ""
        function = file.function(node)
        owner = file.owner(function) if function is not None else None
        if function is None or owner is None or file.classes.get(owner.name) is not owner:
            return ""
        arguments = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
        static = any(isinstance(item, ast.Name) and item.id == "staticmethod" for item in function.decorator_list)
        if not is_super and (static or not arguments or value.id != arguments[0]):  # type: ignore[attr-defined]
            return ""
        chain = self.lineage(f"{file.dotted}.{owner.name}")[is_super:]
        found = next((item for item in chain if node.attr in self.members(item)), "")
        return f"{found}.{node.attr}" if found else ""

    def members(self, dotted: str) -> set[str]:
        """Names that a class's own body binds; those of a class outside the tree by looking at it."""
        module, _, name = dotted.rpartition(".")
        file = self.modules.get(module)
        if file is not None and name in file.classes:
            return _class_names(file.classes[name])
        return set(dir(_outside(dotted)))

    def promised(self, dotted: str, name: str) -> bool:
        """Whether a base of the class declares ``name`` abstract: without it the class has no instances."""
        for base in self.lineage(dotted)[1:]:
            module, _, short = base.rpartition(".")
            file = self.modules.get(module)
            if file is None or short not in file.classes:
                if getattr(getattr(_outside(base), name, None), "__isabstractmethod__", False):
                    return True
                continue
            for item in file.classes[short].body:
                if isinstance(item, _FUNCTIONS) and item.name == name and any(map(_abstract, item.decorator_list)):
                    return True
        return False

    def lineage(self, dotted: str) -> list[str]:
        """A class and its bases, nearest first; ``?`` stands for one that cannot be resolved."""
        found: list[str] = []
        waiting = [dotted]
        while waiting:
            current = waiting.pop(0)
            if current in found:
                continue
            found.append(current)
            module, _, name = current.rpartition(".")
            file = self.modules.get(module)
            if file is not None and name in file.classes:
                for base in file.classes[name].bases:
                    node = base.value if isinstance(base, ast.Subscript) else base
                    known = isinstance(node, ast.Name) and hasattr(builtins, node.id)
                    resolved = self.resolve(file, node) or (f"builtins.{ast.unparse(node)}" if known else _UNKNOWN)
                    waiting.append(resolved)
            elif current != dotted and _outside(current) is None:
                found.append(_UNKNOWN)
        return found


_indexes: WeakKeyDictionary[SourceTree, Index] = WeakKeyDictionary()


def _abstract(mark: ast.AST) -> bool:
    return ast.unparse(mark).rsplit(".", 1)[-1].startswith("abstract")


@functools.cache
def _outside(dotted: str) -> object:
    """A class of the standard library, or None. Nothing else is imported."""
    module, _, name = dotted.rpartition(".")
    if module.split(".")[0] not in sys.stdlib_module_names | {"builtins"}:
        return None
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


@functools.cache
def _class_names(node: ast.ClassDef) -> set[str]:
    found: set[str] = set()
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        item = waiting.pop()
        if isinstance(item, (*_FUNCTIONS, ast.ClassDef)):
            found.add(item.name)
        elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
            found.add(item.id)
        elif not isinstance(item, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            waiting.extend(ast.iter_child_nodes(item))
    return found


@functools.cache
def _local_names(node: ast.AST) -> set[str]:
    """Names that a function binds itself; imports are not among them, they are followed."""
    arguments = node.args  # type: ignore[attr-defined]
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    found = {item.arg for item in every if item is not None}
    outer: set[str] = set()
    waiting = list(node.body) if isinstance(node.body, list) else [node.body]  # type: ignore[attr-defined]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (*_FUNCTIONS, ast.ClassDef)):
            found.add(item.name)
            continue
        if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store | ast.Del):
            found.add(item.id)
        elif isinstance(item, ast.ExceptHandler) and item.name:
            found.add(item.name)
        elif isinstance(item, ast.Global):
            outer |= set(item.names)
        if not isinstance(item, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(item))
    return found - outer
