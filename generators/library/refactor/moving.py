"""The solution of a move: the definition in another module, a re-export at its old place, and the imports it needs."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from ....errors import Rejected
from ...base import Files
from ...python.source import apply_edits, parse, with_leading_comments
from ..deletion.removal.source_file import SourceFile
from .symbols import Symbol

_BUILT_IN = {*dir(builtins), "__name__", "__file__", "__doc__"}


@dataclass(frozen=True)
class Move:
    """Where a symbol goes."""

    symbol: Symbol  # what moves
    module: str  # dotted name of its new module
    path: str  # file of that module
    existing: SourceFile | None = None  # that file, where it exists

    def files(self) -> Files:
        """Return the changed files. Raises Rejected where the definition cannot stand in another module."""
        symbol, file = self.symbol, self.symbol.file
        needed = sorted(set(_free_names(symbol)) - _BUILT_IN)
        of_module = [name for name in needed if name in file.names]
        if of_module:
            raise Rejected("v0_needs_its_module", f"{symbol.name} uses {', '.join(of_module)} of its own module")
        lines = [_import_line(file, name) for name in needed]
        if any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in file.tree.body):
            lines.insert(0, "from __future__ import annotations")
        start, end = with_leading_comments(file.source, symbol.span)
        definition = file.source[start:end].strip(b"\n") + b"\n"
        line = f"from .{self.module.rpartition('.')[2]} import {symbol.name}  # noqa: F401\n".encode()
        remainder = _with_re_export(apply_edits(file.source, [((start, end), b"")]), line)
        return {file.path: remainder, self.path: self._target(lines, definition)}

    def disguised(self) -> Files:
        """Return a wrong solution: the new module imports the definition, which only claims to be from there."""
        symbol = self.symbol
        claim = f"\n\n{symbol.name}.__module__ = {self.module!r}\n".encode()
        line = f"from {symbol.file.dotted} import {symbol.name}\n".encode()
        target = self.existing.source.rstrip() + b"\n\n\n" if self.existing else b""
        return {symbol.file.path: symbol.file.source.rstrip() + claim, self.path: target + line}

    def _target(self, lines: list[str], definition: bytes) -> bytes:
        if self.existing is None:
            head = f'"""{self.symbol.name}, as a module of its own."""\n\n'
            imports = "\n".join(_sorted_imports(lines)).replace("annotations\n", "annotations\n\n", 1)
            return (head + (imports + "\n\n\n" if imports else "\n")).encode() + definition
        source = self.existing.source
        bound = {**self.existing.imports}
        clash = self.existing.names | bound.keys()
        missing = [line for line in lines if not _binds(line, bound, self.existing)]
        names = {line.rpartition(" ")[2] for line in missing}
        if self.symbol.name in clash or names & clash:
            raise Rejected("v0_name_clash", f"{self.module} uses a name that {self.symbol.name} needs otherwise")
        added = "".join(f"{line}\n" for line in _sorted_imports(missing)).encode()
        return _with_lines(source, added).rstrip() + b"\n\n\n" + definition


def _binds(line: str, bound: dict[str, str], file: SourceFile) -> bool:
    """Return whether a module imports the same thing under the same name already."""
    node = parse(line.encode()).body[0]
    if isinstance(node, ast.ImportFrom):
        alias = node.names[0]
        is_its_own = file.absolute(node) == file.dotted and not alias.asname and alias.name in file.names
        return is_its_own or bound.get(alias.asname or alias.name) == f"{file.absolute(node)}.{alias.name}"
    assert isinstance(node, ast.Import), "an import line imports"
    alias = node.names[0]
    return bound.get(alias.asname or alias.name) == alias.name


def _sorted_imports(lines: list[str]) -> list[str]:
    return sorted(set(lines), key=lambda line: ("__future__" not in line, line.startswith("from ."), line))


def _free_names(symbol: Symbol) -> Iterator[str]:
    """Yield the names that the definition takes from its module, annotations included."""
    file, inside = symbol.file, set(ast.walk(symbol.node))
    for node in inside:
        if isinstance(node, ast.Global):
            raise Rejected("v0_needs_its_module", f"{symbol.name} assigns globals of its module")
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node.id == symbol.name:
            continue
        if node.id in file.names or node.id in file.imports:
            yield node.id
    for constant in inside:  # a quoted annotation
        value = constant.value if isinstance(constant, ast.Constant) else None
        if isinstance(value, str) and value != symbol.name and value in file.classes:
            yield value


def _import_line(file: SourceFile, name: str) -> str:
    """Return the module-level import that binds ``name`` in a file. Raises Rejected where it is not a plain one."""
    for node in file.tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for alias in node.names:
            if (alias.asname or alias.name.partition(".")[0]) != name:
                continue
            text = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
            if isinstance(node, ast.ImportFrom):
                return f"from {'.' * node.level}{node.module or ''} import {text}"
            return f"import {text}"
    raise Rejected("v0_needs_its_module", f"{name} is imported in a place of its own")


def _with_re_export(source: bytes, line: bytes) -> bytes:
    """Return a module with the re-export after its imports."""
    return _with_lines(source, line, after_imports=True)


def _with_lines(source: bytes, lines: bytes, *, after_imports: bool = False) -> bytes:
    """Return a module with more import lines, before or after its own imports."""
    if not lines:
        return source
    body = parse(source).body
    text = source.split(b"\n")
    leading = [node for node in body[:1] if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    imports = []
    for node in body[len(leading) :]:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            break
        imports.append(node)
    future = [node for node in imports if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    anchors = imports if after_imports and imports else future or leading
    if not anchors:
        return lines + b"\n" + source
    number = anchors[-1].end_lineno or anchors[-1].lineno
    gap = [] if anchors is imports else [b""]
    return b"\n".join([*text[:number], *gap, *lines.rstrip(b"\n").split(b"\n"), *text[number:]])


def imported_modules(file: SourceFile) -> set[str]:
    """Return the dotted names of modules that a file may import anywhere."""
    modules: set[str] = set()
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = file.absolute(node)
            modules |= {home, *(f"{home}.{alias.name}" for alias in node.names)}
    return modules
