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
    something that is computed. A test that its class inherits from another one of the file is overridden, so that other
    classes keep it. Yields nothing for a test that is not found or compares with no such value.
    """
    place = _locate(source, names)
    if place is None:
        return
    test, owner = place
    spans = SyntaxSpans(source)
    first, last = spans.span(test)
    first = source.rfind(b"\n", 0, first) + 1
    for constant in _constants(test):
        start, end = spans.span(constant)
        changed = _other(constant.value).encode()
        if owner is None:
            yield source[:start] + changed + source[end:]
        elif owner.body[0].col_offset == test.col_offset and not test.decorator_list:
            after = spans.span(owner)[1]
            yield source[:after] + b"\n\n" + source[first:start] + changed + source[end:last] + source[after:]


def source_of_test(source: bytes, names: Sequence[str]) -> bytes | None:
    """Return the source of a test's function, None where there is no such function in its own class."""
    place = _locate(source, names)
    return SyntaxSpans(source).text(place[0]) if place is not None and place[1] is None else None


def _locate(source: bytes, names: Sequence[str]) -> tuple[_Function, ast.ClassDef | None] | None:
    """Return the function that the names lead to, and the class that inherits it; None when there is not one alone."""
    try:
        body: Sequence[ast.stmt] = parse(source).body
    except (SyntaxError, ValueError):
        return None
    *classes, last = names
    module, owner = body, None
    for name in classes:
        owner = next((item for item in body if isinstance(item, ast.ClassDef) and item.name == name), None)
        body = owner.body if owner is not None else ()
    matches = _functions(body, last)
    if len(matches) == 1:
        return matches[0], None
    inherited = _inherited(owner, last, module) if owner is not None and not matches and len(classes) == 1 else None
    return None if inherited is None else (inherited, owner)


def _functions(body: Sequence[ast.stmt], name: str) -> list[_Function]:
    return [item for item in body if isinstance(item, _Function) and item.name == name]


def _inherited(owner: ast.ClassDef, name: str, module: Sequence[ast.stmt], depth: int = 8) -> _Function | None:
    """Return the method that a class of the file inherits from another one of the file, the first that it finds."""
    classes = {item.name: item for item in module if isinstance(item, ast.ClassDef)}
    for base in owner.bases if depth else ():
        parent = classes.get(base.id) if isinstance(base, ast.Name) else None
        if parent is None:
            continue
        methods = _functions(parent.body, name)
        method = methods[-1] if methods else _inherited(parent, name, module, depth - 1)
        if method is not None:
            return method
    return None


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
