"""One Python file as a syntax tree with parents, byte spans and names, and questions about its nodes."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from ....python.source import SyntaxSpans

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)


class SourceFile:
    """One file that parses. Raises SyntaxError or ValueError for one that does not."""

    def __init__(self, path: str, source: bytes, dotted: str) -> None:
        self.path, self.source, self.dotted = path, source, dotted
        self.tree = ast.parse(source)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self._spans = SyntaxSpans(source)
        self.span = self._spans.span
        self.indentation = self._spans.indentation
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
