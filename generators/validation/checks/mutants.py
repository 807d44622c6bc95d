"""Mutants: the solution with one small mistake each. Byte-exact edits, found with ``ast``."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .removed import parse


@dataclass(frozen=True)
class Mutant:
    """``source`` is the whole file with the mistake; ``operator`` says of which kind, ``line`` (1-based) where."""

    operator: str
    line: int
    source: bytes


@dataclass(frozen=True)
class Edit:
    """Replace the bytes from ``start`` to ``end``."""

    operator: str
    start: int
    end: int
    text: bytes


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


def mutants(source: bytes, lines: set[int]) -> tuple[list[Mutant], int]:
    """Every mutant whose mistake starts in ``lines``, in the order of the file, and how many were not worth running.

    Those do not parse, or compile to what the solution compiles to.
    """
    found: list[Mutant] = []
    original, idle = _code(source), 0
    starts = _line_starts(source)
    for edit in sorted(set(_edits(source, starts, lines)), key=lambda edit: (edit.start, edit.end, edit.operator)):
        mutated = source[: edit.start] + edit.text + source[edit.end :]
        code = _code(mutated)
        if code is None or code == original:
            idle += 1
            continue
        line = source.count(b"\n", 0, edit.start) + 1
        found.append(Mutant(edit.operator, line, mutated))
    return found, idle


def _code(source: bytes) -> object:
    """What the source compiles to, line numbers aside; ``None`` when it does not."""
    try:
        return _plain(compile(parse(source), "", "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return None


def _plain(code: types.CodeType) -> tuple[object, ...]:
    constants = tuple(
        _plain(item) if isinstance(item, types.CodeType) else (type(item), repr(item)) for item in code.co_consts
    )
    return code.co_name, code.co_code, code.co_names, code.co_varnames, constants


def _line_starts(source: bytes) -> list[int]:
    return [0, *(found.end() for found in re.finditer(rb"\n", source))]


def _edits(source: bytes, starts: list[int], lines: set[int]) -> Iterator[Edit]:
    file = _File(source, starts)
    for node in _worth(parse(source)):
        if getattr(node, "lineno", 0) in lines:
            for make in OPERATORS.get(type(node), ()):
                yield from make(file, node)


def _worth(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations and the insides of f-strings, whose positions cannot be trusted before Python 3.12."""
    yield node
    if isinstance(node, ast.JoinedStr):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from _worth(item)


class _File:
    """Source with the places of its nodes."""

    def __init__(self, source: bytes, starts: list[int]) -> None:
        self.source = source
        self._starts = starts

    def span(self, node: ast.AST) -> tuple[int, int]:
        # ast counts columns in UTF-8 bytes.
        first: int = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        last: int = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return first, last

    def text(self, node: ast.AST) -> bytes:
        start, end = self.span(node)
        return self.source[start:end]

    def replaced(self, operator: str, node: ast.AST, text: bytes) -> Edit:
        return Edit(operator, *self.span(node), text)

    def between(self, operator: str, left: ast.AST, right: ast.AST, pattern: bytes, text: bytes) -> Iterator[Edit]:
        """An edit of the operator sign that stands between two nodes."""
        start, end = self.span(left)[1], self.span(right)[0]
        found = re.search(pattern, self.source[start:end])
        if found is not None and b"#" not in self.source[start : start + found.start()]:
            yield Edit(operator, start + found.start(), start + found.end(), text)


def _comparison(file: _File, node: ast.Compare) -> Iterator[Edit]:
    for left, operation, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
        pattern, text = COMPARISONS[type(operation)]
        yield from file.between("comparison", left, right, pattern, text)


def _arithmetic(file: _File, node: ast.BinOp) -> Iterator[Edit]:
    if type(node.op) in ARITHMETIC:
        pattern, text = ARITHMETIC[type(node.op)]
        yield from file.between("arithmetic", node.left, node.right, pattern, text)


def _in_place(file: _File, node: ast.AugAssign) -> Iterator[Edit]:
    if type(node.op) in ARITHMETIC:
        pattern, text = ARITHMETIC[type(node.op)]
        yield from file.between("arithmetic", node.target, node.value, pattern + rb"=", text + b"=")
    yield file.replaced("removed statement", node, b"pass")


def _boolean(file: _File, node: ast.BoolOp) -> Iterator[Edit]:
    signs = (rb"\band\b", b"or") if isinstance(node.op, ast.And) else (rb"\bor\b", b"and")
    for left, right in zip(node.values, node.values[1:], strict=False):
        yield from file.between("boolean", left, right, *signs)


def _negation(file: _File, node: ast.UnaryOp) -> Iterator[Edit]:
    if isinstance(node.op, ast.Not):
        yield file.replaced("boolean", node, b"(" + file.text(node.operand) + b")")


def _constant(file: _File, node: ast.Constant) -> Iterator[Edit]:
    value = node.value
    if isinstance(value, bool):
        yield file.replaced("constant", node, str(not value).encode())
    elif isinstance(value, int):
        yield file.replaced("constant", node, str(value + 1).encode())
    elif isinstance(value, float):
        yield file.replaced("constant", node, b"(" + file.text(node) + b" + 1)")


def _condition(file: _File, node: ast.If | ast.While | ast.IfExp) -> Iterator[Edit]:
    yield file.replaced("condition", node.test, b"(not (" + file.text(node.test) + b"))")


def _returned(file: _File, node: ast.Return) -> Iterator[Edit]:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        yield file.replaced("return value", node.value, b"None")


def _statement(file: _File, node: ast.stmt) -> Iterator[Edit]:
    """What can go without leaving a name undefined."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Assign) and any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets):
        return
    yield file.replaced("removed statement", node, b"pass")


def _call(file: _File, node: ast.Call) -> Iterator[Edit]:
    if len(node.args) < 2 or any(isinstance(item, ast.Starred) for item in node.args[:2]):
        return
    (start, _), (_, end) = file.span(node.args[0]), file.span(node.args[1])
    first, second = file.text(node.args[0]), file.text(node.args[1])
    gap = file.source[file.span(node.args[0])[1] : file.span(node.args[1])[0]]
    if first != second and b"#" not in gap:
        yield Edit("swapped arguments", start, end, second + gap + first)


def _raise(file: _File, node: ast.Raise) -> Iterator[Edit]:
    name = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if name is not None and isinstance(name, ast.Name | ast.Attribute):
        other = b"RuntimeError" if file.text(name) == b"Exception" else b"Exception"
        yield file.replaced("exception type", name, other)
    yield file.replaced("removed statement", node, b"pass")


OPERATORS: dict[type[ast.AST], tuple[Callable[..., Iterator[Edit]], ...]] = {
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
