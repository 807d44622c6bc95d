"""Contradictions: the source of a test with one expected value changed to one that no honest solution returns.

The new value is far from the old one (a number is moved by thousands, a text gets a suffix), because a value near it
is what a solution with an ordinary mistake would return. For the same reason true, false and None are left alone.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence

from ..python.expected_values import (
    Function,
    class_of,
    constants,
    equal_sides,
    find_test,
    functions,
    is_literal,
)
from ..python.source import SyntaxSpans, parse_or_empty

_OFFSET = 7919
"""Least distance of a changed number from the expected one."""


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
    for constant in _changeable(test):
        start, end = spans.span(constant)
        changed = _other(constant.value).encode()
        if owner is None:
            yield source[:start] + changed + source[end:]
        elif spans.indentation(owner.body[0]) == spans.indentation(test) and not test.decorator_list:
            after = spans.span(owner)[1]
            yield source[:after] + b"\n\n" + source[first:start] + changed + source[end:last] + source[after:]


def _locate(source: bytes, names: Sequence[str]) -> tuple[Function, ast.ClassDef | None] | None:
    """Return the test function, and its class where it only inherits the function.

    None when the class neither defines nor inherits exactly one function of that name.
    """
    test = find_test(source, names)
    if test is not None:
        return test, None
    body = parse_or_empty(source).body
    owner = class_of(body, names[:-1]) if len(names) == 2 else None
    if owner is None or functions(owner.body, names[-1]):
        return None
    inherited = _inherited(owner, names[-1], body)
    return None if inherited is None else (inherited, owner)


def _inherited(owner: ast.ClassDef, name: str, module: Sequence[ast.stmt], depth: int = 8) -> Function | None:
    """Return the method that a class of the file inherits from another one of the file, the first that it finds."""
    classes = {item.name: item for item in module if isinstance(item, ast.ClassDef)}
    for base in owner.bases if depth else ():
        parent = classes.get(base.id) if isinstance(base, ast.Name) else None
        if parent is None:
            continue
        methods = functions(parent.body, name)
        method = methods[-1] if methods else _inherited(parent, name, module, depth - 1)
        if method is not None:
            return method
    return None


def _changeable(test: Function) -> Iterator[ast.Constant]:
    """Yield the numbers and texts in expected values, in the order of the source."""
    for node in ast.walk(test):
        literals = [side for side in equal_sides(node) if is_literal(side)]
        if len(literals) == 1:
            yield from (item for item in constants(literals[0]) if not isinstance(item.value, bool))


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
