"""Public functions, methods and classes of a package, and every place of the tree that refers to one of them."""

from __future__ import annotations

import ast
import builtins
import collections
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ....errors import Rejected
from ...python.source import Span, SyntaxSpans, line_span, parse, words
from ..deletion.removal.name_index import NameIndex
from ..deletion.removal.source_file import DEFINITIONS, SourceFile

Kind = Literal["function", "method", "class"]
_BUILT_IN = (str, bytes, list, dict, set, tuple, int, float, re.Pattern, re.Match, io.StringIO, io.BytesIO)
_COMMON_ATTRIBUTES = {name for kind in (*_BUILT_IN, collections.deque, collections.Counter) for name in dir(kind)}
"""Attributes of common objects of Python: a method of such a name cannot be followed without types."""


@dataclass(frozen=True, eq=False)
class Symbol:
    """A public definition that exists once: a function or class of a module, or a plain method of such a class."""

    index: NameIndex  # the files of the tree
    file: SourceFile  # its module
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef  # its definition
    owner: ast.ClassDef | None = None  # its class, for a method

    @property
    def name(self) -> str:
        """Return its own name."""
        return self.node.name

    @property
    def qualified(self) -> str:
        """Return its name within its module."""
        return f"{self.owner.name}.{self.name}" if self.owner else self.name

    @property
    def dotted(self) -> str:
        """Return its full name."""
        return f"{self.file.dotted}.{self.qualified}"

    @property
    def kind(self) -> Kind:
        """Return what it is."""
        return "class" if isinstance(self.node, ast.ClassDef) else "method" if self.owner else "function"

    @property
    def span(self) -> Span:
        """Return the span of the definition with its decorators."""
        first = min([self.node, *self.node.decorator_list], key=lambda node: node.lineno)
        start = self.file.span(first)[0]
        return (start - (first is not self.node), self.file.span(self.node)[1])  # with the @ of a decorator

    def covers(self, key: str) -> bool:
        """Return whether a function of the test map belongs to it."""
        entity = f"{self.file.path}::{self.qualified}"
        return key == entity or (self.kind == "class" and key.startswith(f"{entity}."))

    def references(self, file: SourceFile) -> list[ast.Name | ast.Attribute]:
        """Return the names and attributes of a file that refer to it, in the order of the source."""
        if self.owner is not None:
            members = [node for node in ast.walk(file.tree) if isinstance(node, ast.Attribute)]
            return sorted((node for node in members if node.attr == self.name), key=lambda node: file.span(node)[1])
        local = {self.name, *(name for name, target in file.imports.items() if target.endswith(f".{self.name}"))}
        nodes = [
            node
            for node in ast.walk(file.tree)
            if (isinstance(node, ast.Name) and node.id in local)
            or (isinstance(node, ast.Attribute) and node.attr == self.name)
        ]
        resolved = [node for node in nodes if self.index.resolve(file, node) == self.dotted]
        return sorted(resolved, key=lambda node: file.span(node)[1])

    def imports(self, file: SourceFile) -> list[tuple[ast.ImportFrom, ast.alias]]:
        """Return the imports of a file that name it."""
        return [
            (node, alias)
            for node in ast.walk(file.tree)
            if isinstance(node, ast.ImportFrom) and self.owner is None
            for alias in node.names
            if alias.name == self.name and self.index.canonical(f"{file.absolute(node)}.{self.name}") == self.dotted
        ]

    @cached_property
    def files(self) -> list[SourceFile]:
        """Return the files of the tree that mention its name, in path order."""
        vocabulary = self.index.tree.word_index
        return [file for path, file in sorted(self.index.files.items()) if self.name in vocabulary[path]]

    @cached_property
    def exporters(self) -> list[SourceFile]:
        """Return the other modules of the package from which users can import it: packages, and lists of names."""
        if self.owner is not None:
            return []
        return [
            file
            for file in self.files
            if file.path in self.index.own
            and file is not self.file
            and any(node in file.tree.body for node, _ in self.imports(file))
            and (file.path.endswith("__init__.py") or any(listed_names(file, self.name)))
        ]


def symbols(index: NameIndex, kinds: set[Kind]) -> Iterator[Symbol]:
    """Yield the public symbols of the package that every reference can be found of, in path order."""
    stubs = set().union(*(words(index.tree.read(path)) for path in index.tree.stub_files()))
    for path in sorted(index.own):
        file = index.files[path]
        for node in file.tree.body:
            if not isinstance(node, DEFINITIONS) or node.name.startswith("_") or node.name == "main":
                continue
            symbol = Symbol(index, file, node)
            if symbol.kind in kinds and node.name not in stubs and _is_unique(symbol):
                yield symbol
            if isinstance(node, ast.ClassDef) and "method" in kinds:
                yield from _methods(index, file, node, stubs)


def listed_names(file: SourceFile, name: str) -> Iterator[ast.Constant]:
    """Yield the items of ``__all__`` that are ``name``."""
    for node in file.tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__" and isinstance(node.value, ast.List | ast.Tuple):  # type: ignore[attr-defined]
            for item in node.value.elts:  # type: ignore[attr-defined]
                if isinstance(item, ast.Constant) and item.value == name:
                    yield item


def with_imports(source: bytes, *modules: str) -> bytes:
    """Return a source that imports these modules at its top; those that it binds already are left out.

    Raises Rejected where earlier edits left a source that is not valid Python.
    """
    try:
        body = parse(source).body
    except (SyntaxError, ValueError) as error:
        raise Rejected("v0_syntax", f"the rewritten source is not valid Python: {error}") from error
    bound = {alias.asname or alias.name for node in body if isinstance(node, ast.Import) for alias in node.names}
    lines = b"".join(f"import {module}\n".encode() for module in modules if module not in bound)
    if not lines:
        return source
    spans = SyntaxSpans(source)
    leading: list[ast.stmt] = [
        node for node in body[:1] if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    leading += [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    if leading:
        end = line_span(source, spans.span(leading[-1]))[1]
        return source[:end] + b"\n" + lines + source[end:]
    first = min([body[0], *getattr(body[0], "decorator_list", [])], key=lambda node: node.lineno)
    start = line_span(source, spans.span(first))[0]
    return source[:start] + lines + source[start:]


def _is_attribute(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _is_unique(symbol: Symbol) -> bool:
    """Return whether the module binds the name once, and no name of the language is equal."""
    file, name = symbol.file, symbol.name
    bindings = [node for node in ast.walk(file.tree) if isinstance(node, DEFINITIONS) and node.name == name]
    stored = [
        node
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
    ]
    rebound = [node for node in stored if file.function(node) is None]
    return len(bindings) == 1 and not rebound and name not in file.imports and not hasattr(builtins, name)


def _methods(index: NameIndex, file: SourceFile, owner: ast.ClassDef, stubs: set[str]) -> Iterator[Symbol]:
    """Yield the plain methods of a class whose names nothing else of the tree has."""
    for node in owner.body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or node.decorator_list:
            continue
        if node.name in _COMMON_ATTRIBUTES or node.name in stubs or not node.args.args:
            continue
        symbol = Symbol(index, file, node, owner)
        if len(list(_other_bindings(symbol))) == 0:
            yield symbol


def _other_bindings(symbol: Symbol) -> Iterator[ast.AST]:
    """Yield what else of the tree has the name of a method: definitions, attributes that are set, modules, imports."""
    name = symbol.name
    for file in symbol.files:
        if file.path.rsplit("/", 1)[-1].removesuffix(".py") == name or name in file.imports or name in file.names:
            yield file.tree
        for node in ast.walk(file.tree):
            if isinstance(node, DEFINITIONS) and node.name == name and node is not symbol.node:
                yield node
            if _is_attribute(node, name) and not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                yield node
            if isinstance(node, ast.Name) and node.id == name and isinstance(file.parents[node], ast.ClassDef):
                yield node
