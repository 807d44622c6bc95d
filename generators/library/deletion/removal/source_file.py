"""One Python file as a syntax tree with parents, byte spans and the names that it binds."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from ....python.source import SyntaxSpans

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class SourceFile:
    """One file that parses. Raises SyntaxError or ValueError for one that does not."""

    def __init__(self, path: str, source: bytes, dotted: str) -> None:
        self.path, self.source, self.dotted = path, source, dotted
        self.tree = ast.parse(source)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self._spans = SyntaxSpans(source)
        self.span = self._spans.span
        self.imports: dict[str, str] = {}
        """Local name to dotted name, of every import."""
        self.exports: dict[str, str] = {}
        """The same for imports at module level."""
        self.stars: list[str] = []
        """Modules of ``from module import *``."""
        self.names: set[str] = set()
        """Names that the module itself defines."""
        self.classes: dict[str, ast.ClassDef] = {}
        """Its top-level classes."""
        for node in ast.walk(self.tree):
            self._bind(node)

    def text(self, node: ast.AST) -> str:
        """Return the source of a node."""
        return self._spans.text(node).decode("utf-8", "replace")

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around ``node``, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def scopes(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield functions and classes whose body holds ``node``, innermost first; decorators, defaults are outside."""
        child = node
        for parent in self.ancestors(node):
            if isinstance(parent, ast.Lambda) or (isinstance(parent, DEFINITIONS) and child in parent.body):
                yield parent
            child = parent

    def function(self, node: ast.AST) -> Function | None:
        """Return the outermost function whose body holds ``node``: code there does not run while it is imported."""
        functions = [scope for scope in self.scopes(node) if isinstance(scope, FUNCTIONS)]
        return functions[-1] if functions else None

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class whose body holds ``node`` directly."""
        parent = next((item for item in self.ancestors(node) if isinstance(item, DEFINITIONS)), None)
        return parent if isinstance(parent, ast.ClassDef) else None

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement that ``node`` belongs to."""
        return next(item for item in [node, *self.ancestors(node)] if isinstance(item, ast.stmt))

    def scope_name(self, node: ast.AST) -> str:
        """Return the dotted name of the class around ``node``, or of the module."""
        owner = self.owner(node)
        return f"{self.dotted}.{owner.name}" if owner else self.dotted

    def absolute(self, node: ast.ImportFrom) -> str:
        """Return the module that an import names, with its leading dots resolved."""
        if not node.level:
            return node.module or ""
        parts = self.dotted.split(".")
        if not self.path.endswith(("__init__.py", "__init__.pyi")):
            parts = parts[:-1]
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def _bind(self, node: ast.AST) -> None:
        outside = self.function(node) is None
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                self.imports[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*":
                    self.stars.append(self.absolute(node))
                    continue
                target = f"{self.absolute(node)}.{alias.name}"
                self.imports[alias.asname or alias.name] = target
                if outside:
                    self.exports[alias.asname or alias.name] = target
        elif not outside or self.owner(node) is not None:
            return
        elif isinstance(node, DEFINITIONS):
            self.names.add(node.name)
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            self.names.add(node.id)

    @functools.cached_property
    def constants(self) -> list[ast.Constant]:
        """Return the string constants of the file."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


@functools.cache
def class_names(node: ast.ClassDef) -> set[str]:
    """Return the names that a class body binds."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        item = waiting.pop()
        if isinstance(item, DEFINITIONS):
            names.add(item.name)
        elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
            names.add(item.id)
        elif not isinstance(item, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            waiting.extend(ast.iter_child_nodes(item))
    return names


@functools.cache
def local_names(node: ast.AST) -> set[str]:
    """Return the names that a function binds itself, without imports, which are followed."""
    arguments = node.args  # type: ignore[attr-defined]
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {item.arg for item in every if item is not None}
    global_names: set[str] = set()
    waiting = list(node.body) if isinstance(node.body, list) else [node.body]  # type: ignore[attr-defined]
    while waiting:
        item = waiting.pop()
        if isinstance(item, DEFINITIONS):
            names.add(item.name)
            continue
        if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store | ast.Del):
            names.add(item.id)
        elif isinstance(item, ast.ExceptHandler) and item.name:
            names.add(item.name)
        elif isinstance(item, ast.Global):
            global_names |= set(item.names)
        if not isinstance(item, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(item))
    return names - global_names
