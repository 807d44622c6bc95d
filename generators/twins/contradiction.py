"""Contradictions: the source of a test with one expected value changed to one that no honest solution returns.

The new value is far from the old one (a number is moved by thousands, a text gets a suffix), because a value near it
is what a solution with an ordinary mistake would return. For the same reason true, false and None are left alone.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence

from ..python.source import SyntaxSpans, parse

_EQUAL = frozenset({"assertEqual", "assertEquals", "assertListEqual", "assertTupleEqual", "assertDictEqual"})
_OFFSET = 7919
"""Least distance of a changed number from the expected one."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def contradictions(source: bytes, names: Sequence[str]) -> Iterator[bytes]:
    """Yield the source with one expected value of one test changed, each value of the test in turn.

    ``names`` lead to the test: its classes, then its function. Values are those that an assertion compares with
    something that is computed. Yields nothing for a test that is not found or compares with no such value.
    """
    try:
        test = _find(parse(source), names)
    except (SyntaxError, ValueError):
        return
    spans = SyntaxSpans(source)
    for constant in _constants(test) if test is not None else ():
        start, end = spans.span(constant)
        yield source[:start] + _other(constant.value).encode() + source[end:]


def source_of_test(source: bytes, names: Sequence[str]) -> bytes | None:
    """Return the source of a test's function, None where there is no such function."""
    try:
        test = _find(parse(source), names)
    except (SyntaxError, ValueError):
        return None
    return None if test is None else SyntaxSpans(source).text(test)


def _find(tree: ast.Module, names: Sequence[str]) -> _Function | None:
    """Return the function that the names lead to, None when there is none or more than one."""
    *classes, last = names
    body: Sequence[ast.stmt] = tree.body
    for name in classes:
        owner = next((item for item in body if isinstance(item, ast.ClassDef) and item.name == name), None)
        body = owner.body if owner is not None else ()
    matches = [item for item in body if isinstance(item, _Function) and item.name == last]
    return matches[0] if len(matches) == 1 else None


def _constants(test: _Function) -> Iterator[ast.Constant]:
    """Yield the constants in expected values, in the order of the source."""
    for node in ast.walk(test):
        for expected in _expected(node):
            yield from _changeable(expected)


def _expected(node: ast.AST) -> list[ast.expr]:
    """Return the literal side of a comparison with something computed; nothing for any other node."""
    if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
        sides = [node.test.left, *node.test.comparators]
        if len(sides) != 2 or not isinstance(node.test.ops[0], ast.Eq):
            return []
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _EQUAL:
        sides = node.args[:2]
    else:
        return []
    literal = [_is_literal(side) for side in sides]
    return [side for side, fixed in zip(sides, literal, strict=True) if fixed] if literal.count(True) == 1 else []


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _changeable(expected: ast.expr) -> Iterator[ast.Constant]:
    """Yield numbers and texts of a literal, without the keys of dicts: a missing key may fail for another reason."""
    if isinstance(expected, ast.Constant):
        if isinstance(expected.value, int | float | str | bytes) and not isinstance(expected.value, bool):
            yield expected
    elif isinstance(expected, ast.Dict):
        for value in expected.values:
            yield from _changeable(value)
    elif isinstance(expected, ast.List | ast.Tuple):
        for item in expected.elts:
            yield from _changeable(item)


def _other(value: object) -> str:
    """Return the source of another value of the same type, which depends on the value alone."""
    digest = hashlib.sha256(repr(value).encode()).hexdigest()
    distance = _OFFSET + int(digest[:4], 16)
    if isinstance(value, int):
        return repr(value + distance)
    if isinstance(value, float):
        return repr(distance + 0.5 if abs(value) > 1e9 else value + distance)
    suffix = f"-{digest[:6]}"
    return repr(value + suffix.encode() if isinstance(value, bytes) else f"{value}{suffix}")
