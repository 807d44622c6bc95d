"""One module as the mutation generators see it: the nodes worth changing, their tests' lines, and byte-exact edits."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cached_property

from ....python.indentation import moved_lines
from ....python.mutants import Mutant
from ....python.source import Module, Span, SyntaxSpans, parse_or_empty, with_leading_comments
from ..family import Site

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_COSMETIC = {"__repr__", "__rich_repr__", "__dir__", "_repr_html_", "_repr_pretty_"}
_LOGGERS = re.compile(r"_?log(ger|ging)?|warnings|_?warn(ings?)?", re.IGNORECASE)
_GUARDS = {"TYPE_CHECKING", "__name__", "version_info", "PY2", "PY3"}
_UNREAD = {"annotation", "returns", "type_comment", "decorator_list", "type_params"}


class ModuleCode(SyntaxSpans):
    """A module's syntax tree with the parent of each node, and the mistakes that can be put into it."""

    def __init__(self, module: Module, tested: Collection[int]) -> None:
        super().__init__(module.source)
        self.path = module.path
        self.tested = frozenset(tested)  # lines, 1-based, that tests run
        # ``ast`` counts columns in UTF-8, so another encoding would give wrong places.
        self.tree = parse_or_empty(module.source if _is_utf8(module.source) else b"")
        self._attributes: dict[ast.ClassDef, set[str]] = {}
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def nodes(self) -> Iterator[ast.AST]:
        """Yield the nodes whose change users can notice: no annotations, docstrings, messages, logs or f-strings."""
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            node = waiting.pop()
            if not self._is_cosmetic(node):
                yield node
                waiting.extend(reversed(list(_children(node))))

    def _is_cosmetic(self, node: ast.AST) -> bool:
        if isinstance(node, Function):
            inner = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            return node.name in _COSMETIC or self.tested.isdisjoint(inner)
        if isinstance(node, ast.Expr):
            value = node.value
            return isinstance(value, ast.Constant) or (isinstance(value, ast.Call) and is_log(value.func))
        if isinstance(node, ast.If):
            return any(_last_name(item) in _GUARDS for item in ast.walk(node.test))
        if isinstance(node, ast.Assign):
            names = [_last_name(target) for target in node.targets]
            return any(name in ("__all__", "__version__", "__slots__", "__author__") for name in names)
        return isinstance(node, ast.JoinedStr)

    def function(self, node: ast.AST) -> Function | None:
        """Return the function in whose body, defaults or decorators the node is."""
        return next((item for item in self.around(node) if isinstance(item, Function)), None)

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class in whose body or methods the node is."""
        return next((item for item in self.around(node) if isinstance(item, ast.ClassDef)), None)

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement that holds the node, which may be the node itself."""
        return next(item for item in (node, *self.around(node)) if isinstance(item, ast.stmt))

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the parent of a node, the parent's parent, and so on."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def block(self, statement: ast.AST) -> list[ast.stmt]:
        """Return the statements among which this one is."""
        for _, value in ast.iter_fields(self.parents[statement]):
            if isinstance(value, list) and statement in value:
                return value
        return []

    def is_elif(self, node: ast.If) -> bool:
        """Return whether an ``if`` statement is written as ``elif``."""
        return self.text(node).startswith(b"elif")

    def lines_of(self, node: ast.AST) -> tuple[int, ...]:
        """Return the lines whose tests run the node; those of its users when it runs while the module is imported."""
        statement = self.statement(node)
        if isinstance(statement, Scope) and statement is not node and not self._in_body(node, statement):
            return self.body_lines(statement)  # a default, a base or a decorator
        if self._runs_later(statement):
            line: int = getattr(node, "lineno", statement.lineno)
            return (line if line in self.tested else statement.lineno,)
        scope = self.parents.get(statement)
        if isinstance(scope, ast.ClassDef):
            return self.body_lines(scope)
        names = {
            item.id for item in ast.walk(statement) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
        }
        return tuple(sorted({line for name in names for line in self._uses.get(name, ())}))

    def _runs_later(self, statement: ast.AST) -> bool:
        return any(isinstance(item, Function | ast.Lambda) for item in self.around(statement))

    def _in_body(self, node: ast.AST, scope: Scope) -> bool:
        inner = node
        for item in self.around(node):
            if item is scope:
                break
            inner = item
        return inner in scope.body

    def body_lines(self, scope: Scope) -> tuple[int, ...]:
        """Return the tested lines below the head of a function or class."""
        return tuple(line for line in range(scope.lineno + 1, (scope.end_lineno or 0) + 1) if line in self.tested)

    def uses(self, name: str) -> tuple[int, ...]:
        """Return the tested lines that read a name."""
        return tuple(sorted(set(self._uses.get(name, ()))))

    @cached_property
    def _uses(self) -> dict[str, list[int]]:
        """Return the tested lines that read each name."""
        uses: dict[str, list[int]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.lineno in self.tested:
                uses.setdefault(node.id, []).append(node.lineno)
        return uses

    @cached_property
    def functions(self) -> dict[str, list[Function]]:
        """Return the functions and methods of the module by name."""
        functions: dict[str, list[Function]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                functions.setdefault(node.name, []).append(node)
        return functions

    def own_attributes(self, owner: ast.ClassDef) -> set[str]:
        """Return the attributes that methods of a class assign to ``self``."""
        if owner not in self._attributes:
            nodes = (node for node in ast.walk(owner) if isinstance(node, ast.Attribute) and is_self(node.value))
            self._attributes[owner] = {node.attr for node in nodes if isinstance(node.ctx, ast.Store)}
        return self._attributes[owner]

    # --- Mistakes -----------------------------------------------------------------------------------------------

    def spliced(self, kind: str, span: Span, text: bytes, at: ast.AST | tuple[int, ...]) -> Iterator[Site]:
        """Yield the mistake that replaces ``span``, decided by the tests that run ``at``: a node, or lines, 1-based."""
        lines = at if isinstance(at, tuple) else self.lines_of(at)
        if lines and self.source[span[0] : span[1]] != text:
            yield Site(self.path, Mutant(self.source, kind, *span, text), lines)

    def replaced(self, kind: str, node: ast.AST, text: bytes) -> Iterator[Site]:
        """Yield the mistake that replaces a node."""
        yield from self.spliced(kind, self.span(node), text, node)

    def between(
        self, kind: str, pattern: bytes, text: bytes, first: ast.AST, second: ast.AST, at: ast.AST | tuple[int, ...]
    ) -> Iterator[Site]:
        """Yield the mistake that replaces the sign between two nodes."""
        start, end = self.span(first)[1], self.span(second)[0]
        match = re.search(pattern, self.source[start:end])
        if match is not None and b"#" not in self.source[start : start + match.start()]:
            yield from self.spliced(kind, (start + match.start(), start + match.end()), text, at)

    def removed(self, kind: str, statement: ast.stmt) -> Iterator[Site]:
        """Yield the mistake that lacks a statement: without its lines, or ``pass`` where the block would be empty."""
        span = self.lines_span(statement)
        if span is None or len(self.block(statement)) == 1:
            yield from self.replaced(kind, statement, b"pass")
        else:  # a comment about the statement would give it away
            start, _ = with_leading_comments(self.source, (span[0], span[0]))
            yield from self.spliced(kind, (start, span[1]), b"", statement)

    def unwrapped(self, kind: str, statement: ast.stmt, *blocks: list[ast.stmt]) -> Iterator[Site]:
        """Yield the mistake that has only the given blocks in place of a compound statement."""
        parts = [self.dedented(block, self.indentation(statement)) for block in blocks if block]
        span = self.lines_span(statement)
        if span is not None and parts and all(parts):
            yield from self.spliced(kind, span, b"".join(part for part in parts if part), statement)

    def lines_span(self, statement: ast.stmt) -> Span | None:
        """Return the span of the whole lines of a statement; None when it shares a line with other code."""
        decorators = getattr(statement, "decorator_list", [])
        first = min([statement.lineno, *(item.lineno for item in decorators)])
        start, end = self._starts[first - 1], self.span(statement)[1]
        last = self.source.find(b"\n", end)
        suffix = self.source[end : last if last >= 0 else len(self.source)].strip()
        alone = not self.source[start : start + statement.col_offset].strip()
        if not alone or (suffix and not suffix.startswith(b"#")):
            return None
        return start, len(self.source) if last < 0 else last + 1

    def dedented(self, block: list[ast.stmt], indentation: bytes) -> bytes | None:
        """Return the lines of a block at an indentation; None when it cannot be moved as whole lines."""
        first, last = self.lines_span(block[0]), self.lines_span(block[-1])
        if first is None or last is None or self._has_long_string(block):
            return None
        start, _ = with_leading_comments(self.source, first)
        return self.reindented((start, last[1]), self.indentation(block[0]), indentation)

    def reindented(self, span: Span, before: bytes, after: bytes) -> bytes:
        """Return whole lines of a block at the indentation ``after`` in place of ``before``."""
        return moved_lines(self.source[span[0] : span[1]], before, after)

    def _has_long_string(self, block: list[ast.stmt]) -> bool:
        """Return whether a string spans lines, which another indentation would change."""
        return any(
            isinstance(node, ast.Constant | ast.JoinedStr)
            and node.lineno != node.end_lineno
            and (isinstance(node, ast.JoinedStr) or isinstance(node.value, str | bytes))
            for statement in block
            for node in ast.walk(statement)
        )


def called_name(call: ast.Call) -> str:
    """Return the name of the function or method that is called; empty for any other expression."""
    return _last_name(call.func)


def is_super(call: ast.Call) -> bool:
    """Return whether a call is one of a method of ``super()``."""
    inner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "super"


def is_self(node: ast.AST) -> bool:
    """Return whether a node is the name ``self``."""
    return isinstance(node, ast.Name) and node.id == "self"


def is_log(function: ast.expr) -> bool:
    """Return whether a call of ``function`` writes a log or a warning."""
    parts = [_last_name(item) for item in ast.walk(function)]
    return any(_LOGGERS.fullmatch(part) for part in parts if part)


def is_lock(context: ast.expr) -> bool:
    """Return whether a context manager looks like a lock."""
    names = [_last_name(item).lower() for item in ast.walk(context)]
    return any(word in name for name in names for word in ("lock", "mutex", "semaphore", "condition"))


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node whose change matters; the arguments of an exception are its message."""
    if isinstance(node, ast.Raise):
        return
    for name, value in ast.iter_fields(node):
        if name in _UNREAD or (isinstance(node, ast.Assert) and name == "msg"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield item


def _is_utf8(source: bytes) -> bool:
    try:
        source.decode()
    except UnicodeDecodeError:
        return False
    head = b"\n".join(source.split(b"\n", 2)[:2])
    coding = re.search(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", head, re.MULTILINE)
    return coding is None or coding[1].lower().replace(b"_", b"-") in (b"utf-8", b"utf8")
