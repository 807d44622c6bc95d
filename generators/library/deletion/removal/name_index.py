"""Which name refers to what: every Python file of a tree with its names resolved, as far as the source says.

Names are followed through imports, re-exports, star imports and module attributes, and ``self.x``, ``cls.x`` and
``super().x`` through the bases that the tree defines. Attributes of other objects are not: their class is unknown.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import sys

from ....python.source_tree import SourceTree
from .source_file import FUNCTIONS, SourceFile, class_names, local_names

UNKNOWN = "?"
"""Stands for a base class that cannot be resolved."""


class NameIndex:
    """All files of one SourceTree, resolved lazily."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self.files: dict[str, SourceFile] = {}
        for path, source in tree.python_files.items():
            try:
                self.files[path] = SourceFile(path, source, tree.dotted_name(path))
            except (SyntaxError, ValueError):
                continue
        self.modules = {file.dotted: file for file in self.files.values()}
        self.own = {path for path in self.files if tree.is_source(path) and not tree.is_test(path)}

    @classmethod
    @functools.lru_cache(maxsize=8)
    def of(cls, tree: SourceTree) -> NameIndex:
        """Return the index of a tree that is shared within this process."""
        return cls(tree)

    def canonical(self, dotted: str) -> str:
        """Return the dotted name under which the object is defined, following re-exports."""
        for _ in range(12):
            parts = dotted.split(".")
            for cut in range(len(parts) - 1, 0, -1):
                file = self.modules.get(".".join(parts[:cut]))
                if file is None:
                    continue
                if parts[cut] in file.names:
                    return dotted
                target = file.exports.get(parts[cut]) or self._starred(file, parts[cut])
                # When a package imports its own submodule of the same name, the submodule is what is meant.
                if target is None or target == dotted:
                    return dotted
                dotted = ".".join([target, *parts[cut + 1 :]])
                break
            else:
                return dotted
        return dotted

    def _starred(self, file: SourceFile, name: str, depth: int = 0) -> str | None:
        """Return what ``name`` refers to when a star import of the file brings it."""
        for module in file.stars:
            other = self.modules.get(module)
            if other is None or depth > 5:
                continue
            if name in other.names or name in other.exports:
                return f"{module}.{name}"
            target = self._starred(other, name, depth + 1)
            if target:
                return target
        return None

    def resolve(self, file: SourceFile, node: ast.AST) -> str:
        """Return the canonical dotted name of a Name or Attribute; empty when it is unknown."""
        dotted = self._resolve(file, node)
        return self.canonical(dotted) if dotted else ""

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
                if nearest and node.id in class_names(scope):
                    return f"{file.dotted}.{scope.name}.{node.id}"
            elif node.id in local_names(scope):
                return ""
            nearest = False
        if node.id in file.imports:
            return file.imports[node.id]
        if node.id in file.names:
            return f"{file.dotted}.{node.id}"
        return self._starred(file, node.id) or ""

    def _member(self, file: SourceFile, node: ast.Attribute) -> str:
        """Return the dotted name of ``self.x``, ``cls.x`` or ``super().x`` in the class that defines it."""
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
        provider = next((item for item in chain if node.attr in self.members(item)), "")
        return f"{provider}.{node.attr}" if provider else ""

    def members(self, dotted: str) -> set[str]:
        """Return the names that a class body binds; for a class of the standard library, all its attributes."""
        module, _, name = dotted.rpartition(".")
        file = self.modules.get(module)
        if file is not None and name in file.classes:
            return class_names(file.classes[name])
        return set(dir(_standard_class(dotted)))

    def is_abstract_in_base(self, dotted: str, name: str) -> bool:
        """Return whether a base of the class declares ``name`` abstract; without it, the class has no instances."""
        for base in self.lineage(dotted)[1:]:
            module, _, short = base.rpartition(".")
            file = self.modules.get(module)
            if file is None or short not in file.classes:
                if getattr(getattr(_standard_class(base), name, None), "__isabstractmethod__", False):
                    return True
                continue
            for item in file.classes[short].body:
                if isinstance(item, FUNCTIONS) and item.name == name and any(map(_is_abstract, item.decorator_list)):
                    return True
        return False

    def lineage(self, dotted: str) -> list[str]:
        """Return a class and its bases, nearest first; UNKNOWN stands for one that cannot be resolved."""
        classes: list[str] = []
        waiting = [dotted]
        while waiting:
            current = waiting.pop(0)
            if current in classes:
                continue
            classes.append(current)
            module, _, name = current.rpartition(".")
            file = self.modules.get(module)
            if file is not None and name in file.classes:
                for base in file.classes[name].bases:
                    node = base.value if isinstance(base, ast.Subscript) else base
                    is_builtin = isinstance(node, ast.Name) and hasattr(builtins, node.id)
                    resolved = self.resolve(file, node) or (f"builtins.{ast.unparse(node)}" if is_builtin else UNKNOWN)
                    waiting.append(resolved)
            elif current != dotted and _standard_class(current) is None:
                classes.append(UNKNOWN)
        return classes


def _is_abstract(mark: ast.AST) -> bool:
    return ast.unparse(mark).rsplit(".", 1)[-1].startswith("abstract")


@functools.cache
def _standard_class(dotted: str) -> object:
    """Return a class of the standard library, or None. Nothing else is imported."""
    module, _, name = dotted.rpartition(".")
    if module.split(".")[0] not in sys.stdlib_module_names | {"builtins"}:
        return None
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
