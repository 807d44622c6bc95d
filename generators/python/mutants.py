"""Mutants: a source with one small mistake each. The edits are byte-exact and found with ``ast``."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

from .source import Span, SyntaxSpans, compiled, parse, parsed

P = TypeVar("P")


@dataclass(frozen=True)
class Mutant:
    """A source with one mistake in it: the bytes from ``start`` to ``end`` of the original became ``text``."""

    original: bytes
    operator: str  # the kind of mistake: ``comparison``, ``boolean``, ``arithmetic``, ..
    start: int
    end: int
    text: bytes

    @property
    def line(self) -> int:
        """Return the line of the mistake, 1-based."""
        return self.original.count(b"\n", 0, self.start) + 1

    @property
    def source(self) -> bytes:
        """Return the whole file."""
        return self.original[: self.start] + self.text + self.original[self.end :]

    def changes_code(self) -> bool:
        """Return whether the source compiles, and to other code than the original.

        Only the statement of the module that holds the mistake is compiled.
        """
        whole = (0, len(self.original))
        start, end = next((part for part in _statements(self.original) if self._is_in(part)), whole)
        mutated = self.original[start : self.start] + self.text + self.original[self.end : end]
        return _code(mutated) not in (None, _code(self.original[start:end]))

    def _is_in(self, part: Span) -> bool:
        return part[0] <= self.start and self.end <= part[1]


COMPARISONS = {
    ast.Eq: (rb"==", b"!="),
    ast.NotEq: (rb"!=", b"=="),
    ast.Lt: (rb"<", b"<="),
    ast.LtE: (rb"<=", b"<"),
    ast.Gt: (rb">", b">="),
    ast.GtE: (rb">=", b">"),
    ast.Is: (rb"\bis\b", b"is not"),
    ast.IsNot: (rb"\bis\s+not\b", b"is"),
    ast.In: (rb"\bin\b", b"not in"),
    ast.NotIn: (rb"\bnot\s+in\b", b"in"),
}
ARITHMETIC = {
    ast.Add: (rb"\+", b"-"),
    ast.Sub: (rb"-", b"+"),
    ast.Mult: (rb"\*", b"+"),
    ast.Div: (rb"/", b"*"),
    ast.FloorDiv: (rb"//", b"*"),
    ast.Mod: (rb"%", b"*"),
    ast.Pow: (rb"\*\*", b"*"),
    ast.LShift: (rb"<<", b">>"),
    ast.RShift: (rb">>", b"<<"),
    ast.BitAnd: (rb"&", b"|"),
    ast.BitOr: (rb"\|", b"&"),
    ast.BitXor: (rb"\^", b"&"),
}


def mutants(source: bytes, lines: Collection[int]) -> list[Mutant]:
    """Return the mutants that compile, and to other code than the source, in file order."""
    return [mutant for mutant in possible_mutants(source, lines) if mutant.changes_code()]


def possible_mutants(source: bytes, lines: Collection[int]) -> list[Mutant]:
    """Return a mutant for every mistake in nodes that start in ``lines`` (1-based), in file order."""
    text = _Text(source)
    unordered = {
        mutant
        for node in mutable_nodes(parsed(source))
        if getattr(node, "lineno", 0) in lines
        for operator in OPERATORS.get(type(node), ())
        for mutant in operator(text, node)
    }
    return sorted(unordered, key=lambda mutant: (mutant.start, mutant.end, mutant.operator, mutant.text))


def chosen_mutants(pool: list[tuple[P, Mutant]], most: int) -> list[tuple[P, Mutant]]:
    """Return up to ``most`` mutants that compile to other code, each kind in turn; no more of the pool is compiled."""
    in_turn = each_kind_in_turn(pool, len(pool))
    return list(itertools.islice((item for item in in_turn if item[1].changes_code()), most))


def each_kind_in_turn(pool: list[tuple[P, Mutant]], most: int) -> list[tuple[P, Mutant]]:
    """Return up to ``most`` mutants with their places: the first of each kind of mistake, then the second of each."""
    turns: Counter[str] = Counter()
    ranked: list[tuple[int, tuple[P, Mutant]]] = []
    for place, mutant in pool:
        turns[mutant.operator] += 1
        ranked.append((turns[mutant.operator], (place, mutant)))
    return [item for _, item in sorted(ranked, key=lambda entry: entry[0])[:most]]


@functools.lru_cache(maxsize=16)
def _statements(source: bytes) -> list[Span]:
    """Return the byte spans of a module's statements, whole lines each; none where a part cannot be compiled alone."""
    lines = source.splitlines(keepends=True)
    if b"coding" in b"".join(lines[:2]) or source.startswith(b"\xef\xbb\xbf") or b"\r" in source or b"\f" in source:
        return []
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    spans = []
    for node in parsed(source).body:
        first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
        spans.append((starts[first - 1], starts[node.end_lineno or first]))
    return spans


@functools.lru_cache(maxsize=64)
def _code(source: bytes) -> object:
    """Return what the source compiles to, without line numbers; None when it does not compile."""
    try:
        return _comparable(compiled(parse(source)))
    except (SyntaxError, ValueError):
        return None


def _comparable(code: types.CodeType) -> tuple[object, ...]:
    constants = tuple(
        _comparable(item) if isinstance(item, types.CodeType) else (type(item), repr(item)) for item in code.co_consts
    )
    return code.co_name, code.co_code, code.co_names, code.co_varnames, constants


def mutable_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes except annotations and parts of f-strings, whose positions are wrong before Python 3.12."""
    yield node
    if isinstance(node, ast.JoinedStr):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from mutable_nodes(item)


class _Text(SyntaxSpans):
    """A source, and the mutants of its nodes."""

    def replaced(self, operator: str, node: ast.AST, text: bytes) -> Mutant:
        return Mutant(self.source, operator, *self.span(node), text)

    def between(self, operator: str, first: ast.AST, second: ast.AST, pattern: bytes, text: bytes) -> Iterator[Mutant]:
        """Yield the mutant of the operator sign between two nodes."""
        start, end = self.span(first)[1], self.span(second)[0]
        match = re.search(pattern, self.source[start:end])
        if match is not None and b"#" not in self.source[start : start + match.start()]:
            yield Mutant(self.source, operator, start + match.start(), start + match.end(), text)


def _comparison(source: _Text, node: ast.Compare) -> Iterator[Mutant]:
    for first, operation, second in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
        pattern, text = COMPARISONS[type(operation)]
        yield from source.between("comparison", first, second, pattern, text)


def _arithmetic(source: _Text, node: ast.BinOp) -> Iterator[Mutant]:
    if type(node.op) in ARITHMETIC:
        pattern, text = ARITHMETIC[type(node.op)]
        yield from source.between("arithmetic", node.left, node.right, pattern, text)


def _in_place(source: _Text, node: ast.AugAssign) -> Iterator[Mutant]:
    if type(node.op) in ARITHMETIC:
        pattern, text = ARITHMETIC[type(node.op)]
        yield from source.between("arithmetic", node.target, node.value, pattern + rb"=", text + b"=")
    yield source.replaced("removed statement", node, b"pass")


def _boolean(source: _Text, node: ast.BoolOp) -> Iterator[Mutant]:
    signs = (rb"\band\b", b"or") if isinstance(node.op, ast.And) else (rb"\bor\b", b"and")
    for first, second in zip(node.values, node.values[1:], strict=False):
        yield from source.between("boolean", first, second, *signs)


def _negation(source: _Text, node: ast.UnaryOp) -> Iterator[Mutant]:
    if isinstance(node.op, ast.Not):
        operand = source.text(node.operand)
        single = isinstance(node.operand, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        yield source.replaced("boolean", node, operand if single else b"(" + operand + b")")


def _constant(source: _Text, node: ast.Constant) -> Iterator[Mutant]:
    value = node.value
    if isinstance(value, bool):
        yield source.replaced("constant", node, str(not value).encode())
    elif isinstance(value, int):
        yield source.replaced("constant", node, str(value + 1).encode())
    elif isinstance(value, float):
        yield source.replaced("constant", node, b"(" + source.text(node) + b" + 1)")


def _condition(source: _Text, node: ast.If | ast.While | ast.IfExp) -> Iterator[Mutant]:
    yield source.replaced("condition", node.test, b"(not (" + source.text(node.test) + b"))")


def _returned(source: _Text, node: ast.Return) -> Iterator[Mutant]:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        yield source.replaced("return value", node.value, b"None")


def _statement(source: _Text, node: ast.stmt) -> Iterator[Mutant]:
    """Yield the removal of a statement, unless a name would then be undefined."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Assign) and any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets):
        return
    yield source.replaced("removed statement", node, b"pass")


def _call(source: _Text, node: ast.Call) -> Iterator[Mutant]:
    if len(node.args) < 2 or any(isinstance(item, ast.Starred) for item in node.args[:2]):
        return
    (start, _), (_, end) = source.span(node.args[0]), source.span(node.args[1])
    first, second = source.text(node.args[0]), source.text(node.args[1])
    gap = source.source[source.span(node.args[0])[1] : source.span(node.args[1])[0]]
    if first != second and b"#" not in gap:
        yield Mutant(source.source, "swapped arguments", start, end, second + gap + first)


def _raise(source: _Text, node: ast.Raise) -> Iterator[Mutant]:
    name = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if name is not None and isinstance(name, ast.Name | ast.Attribute):
        other = b"RuntimeError" if source.text(name) == b"Exception" else b"Exception"
        yield source.replaced("exception type", name, other)
    yield source.replaced("removed statement", node, b"pass")


OPERATORS: dict[type[ast.AST], tuple[Callable[..., Iterator[Mutant]], ...]] = {
    ast.Compare: (_comparison,),
    ast.BinOp: (_arithmetic,),
    ast.AugAssign: (_in_place,),
    ast.BoolOp: (_boolean,),
    ast.UnaryOp: (_negation,),
    ast.Constant: (_constant,),
    ast.If: (_condition,),
    ast.While: (_condition,),
    ast.IfExp: (_condition,),
    ast.Return: (_returned,),
    ast.Expr: (_statement,),
    ast.Assign: (_statement,),
    ast.Delete: (_statement,),
    ast.Call: (_call,),
    ast.Raise: (_raise,),
}
