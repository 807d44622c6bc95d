"""Mutants: a source with one small mistake each. The edits are byte-exact and found with ``ast``."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from .source import SyntaxSpans, parse


@dataclass(frozen=True)
class Mutation:
    """One possible mistake: replace the bytes from ``start`` to ``end`` by ``text``."""

    operator: str  # the kind of mistake: ``comparison``, ``boolean``, ``arithmetic``, ..
    start: int  # first byte that is replaced
    end: int  # the byte after the last
    text: bytes  # what is written there instead


@dataclass(frozen=True)
class Mutant:
    """A source with a mistake in it."""

    operator: str  # the kind of mistake
    line: int  # where it is, 1-based
    source: bytes  # the whole file


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


def mutants(source: bytes, lines: Collection[int]) -> tuple[list[Mutant], int]:
    """Return every mutant whose mistake starts in ``lines``, in file order, and the number of useless mutations.

    A useless mutation does not parse, or compiles to the same code as the source.
    """
    original, result, useless = _code(source), [], 0
    for mutation in mutations(source, lines):
        mutated = apply_mutation(source, mutation)
        code = _code(mutated)
        if code is None or code == original:
            useless += 1
            continue
        line = source.count(b"\n", 0, mutation.start) + 1
        result.append(Mutant(mutation.operator, line, mutated))
    return result, useless


def mutations(source: bytes, lines: Collection[int]) -> list[Mutation]:
    """Return every mutation of nodes that start in ``lines`` (1-based), in file order."""
    text = _Text(source)
    unordered = {
        mutation
        for node in _mutable_nodes(parse(source))
        if getattr(node, "lineno", 0) in lines
        for operator in OPERATORS.get(type(node), ())
        for mutation in operator(text, node)
    }
    return sorted(unordered, key=lambda mutation: (mutation.start, mutation.end, mutation.operator, mutation.text))


def apply_mutation(source: bytes, mutation: Mutation) -> bytes:
    """Return the source with the mistake in it."""
    return source[: mutation.start] + mutation.text + source[mutation.end :]


def changes_code(source: bytes, mutated: bytes) -> bool:
    """Return whether ``mutated`` compiles, and to other code than ``source``."""
    code = _code(mutated)
    return code is not None and code != _code(source)


def _code(source: bytes) -> object:
    """Return what the source compiles to, without line numbers; None when it does not compile."""
    try:
        return _comparable(compile(parse(source), "", "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return None


def _comparable(code: types.CodeType) -> tuple[object, ...]:
    constants = tuple(
        _comparable(item) if isinstance(item, types.CodeType) else (type(item), repr(item)) for item in code.co_consts
    )
    return code.co_name, code.co_code, code.co_names, code.co_varnames, constants


def _mutable_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes except annotations and parts of f-strings, whose positions are wrong before Python 3.12."""
    yield node
    if isinstance(node, ast.JoinedStr):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from _mutable_nodes(item)


class _Text(SyntaxSpans):
    """A source, and the mutations of its nodes."""

    def replaced(self, operator: str, node: ast.AST, text: bytes) -> Mutation:
        return Mutation(operator, *self.span(node), text)

    def between(
        self, operator: str, first: ast.AST, second: ast.AST, pattern: bytes, text: bytes
    ) -> Iterator[Mutation]:
        """Yield the mutation of the operator sign between two nodes."""
        start, end = self.span(first)[1], self.span(second)[0]
        match = re.search(pattern, self.source[start:end])
        if match is not None and b"#" not in self.source[start : start + match.start()]:
            yield Mutation(operator, start + match.start(), start + match.end(), text)


def _comparison(source: _Text, node: ast.Compare) -> Iterator[Mutation]:
    for first, operation, second in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
        pattern, text = COMPARISONS[type(operation)]
        yield from source.between("comparison", first, second, pattern, text)


def _arithmetic(source: _Text, node: ast.BinOp) -> Iterator[Mutation]:
    if type(node.op) in ARITHMETIC:
        pattern, text = ARITHMETIC[type(node.op)]
        yield from source.between("arithmetic", node.left, node.right, pattern, text)


def _in_place(source: _Text, node: ast.AugAssign) -> Iterator[Mutation]:
    if type(node.op) in ARITHMETIC:
        pattern, text = ARITHMETIC[type(node.op)]
        yield from source.between("arithmetic", node.target, node.value, pattern + rb"=", text + b"=")
    yield source.replaced("removed statement", node, b"pass")


def _boolean(source: _Text, node: ast.BoolOp) -> Iterator[Mutation]:
    signs = (rb"\band\b", b"or") if isinstance(node.op, ast.And) else (rb"\bor\b", b"and")
    for first, second in zip(node.values, node.values[1:], strict=False):
        yield from source.between("boolean", first, second, *signs)


def _negation(source: _Text, node: ast.UnaryOp) -> Iterator[Mutation]:
    if isinstance(node.op, ast.Not):
        yield source.replaced("boolean", node, b"(" + source.text(node.operand) + b")")


def _constant(source: _Text, node: ast.Constant) -> Iterator[Mutation]:
    value = node.value
    if isinstance(value, bool):
        yield source.replaced("constant", node, str(not value).encode())
    elif isinstance(value, int):
        yield source.replaced("constant", node, str(value + 1).encode())
    elif isinstance(value, float):
        yield source.replaced("constant", node, b"(" + source.text(node) + b" + 1)")


def _condition(source: _Text, node: ast.If | ast.While | ast.IfExp) -> Iterator[Mutation]:
    yield source.replaced("condition", node.test, b"(not (" + source.text(node.test) + b"))")


def _returned(source: _Text, node: ast.Return) -> Iterator[Mutation]:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        yield source.replaced("return value", node.value, b"None")


def _statement(source: _Text, node: ast.stmt) -> Iterator[Mutation]:
    """Yield the removal of a statement, unless a name would then be undefined."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Assign) and any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets):
        return
    yield source.replaced("removed statement", node, b"pass")


def _call(source: _Text, node: ast.Call) -> Iterator[Mutation]:
    if len(node.args) < 2 or any(isinstance(item, ast.Starred) for item in node.args[:2]):
        return
    (start, _), (_, end) = source.span(node.args[0]), source.span(node.args[1])
    first, second = source.text(node.args[0]), source.text(node.args[1])
    gap = source.source[source.span(node.args[0])[1] : source.span(node.args[1])[0]]
    if first != second and b"#" not in gap:
        yield Mutation("swapped arguments", start, end, second + gap + first)


def _raise(source: _Text, node: ast.Raise) -> Iterator[Mutation]:
    name = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if name is not None and isinstance(name, ast.Name | ast.Attribute):
        other = b"RuntimeError" if source.text(name) == b"Exception" else b"Exception"
        yield source.replaced("exception type", name, other)
    yield source.replaced("removed statement", node, b"pass")


OPERATORS: dict[type[ast.AST], tuple[Callable[..., Iterator[Mutation]], ...]] = {
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
