"""Expected values of a test function: the literals that its assertions compare with something computed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .source import SyntaxSpans, parse_or_empty

Function = ast.FunctionDef | ast.AsyncFunctionDef
EQUAL_ASSERTIONS = frozenset({"assertEqual", "assertEquals", "assertListEqual", "assertTupleEqual", "assertDictEqual"})
"""Methods of unittest's TestCase that compare their first two arguments."""


def class_of(body: Sequence[ast.stmt], names: Sequence[str]) -> ast.ClassDef | None:
    """Return the class that ``names`` lead to, each inside the one before it; None when there is none."""
    owner: ast.ClassDef | None = None
    for name in names:
        owner = next((item for item in body if isinstance(item, ast.ClassDef) and item.name == name), None)
        body = owner.body if owner is not None else []
    return owner


def functions(body: Sequence[ast.stmt], name: str) -> list[Function]:
    """Return the functions of this name that are defined directly in a module or class."""
    return [item for item in body if isinstance(item, Function) and item.name == name]


def find_test(source: bytes, names: Sequence[str]) -> Function | None:
    """Return the test function that ``names`` (its classes, then its own name) lead to.

    None when the source is broken, or when its class does not define exactly one function of that name.
    """
    body = parse_or_empty(source).body
    if names[:-1]:
        owner = class_of(body, names[:-1])
        body = owner.body if owner is not None else []
    matches = functions(body, names[-1])
    return matches[0] if len(matches) == 1 else None


def source_of_test(source: bytes, names: Sequence[str]) -> bytes | None:
    """Return the source of the test that ``names`` lead to, without its decorators; None when it is not found."""
    test = find_test(source, names)
    return None if test is None else SyntaxSpans(source).text(test)


def equal_sides(node: ast.AST) -> list[ast.expr]:
    """Return what an assertion says is equal, at most two expressions; none for any other node.

    ``assert x is True`` counts as an assertion of equality.
    """
    if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
        sides = [node.test.left, node.test.comparators[0]]
        is_truth = any(isinstance(side, ast.Constant) and isinstance(side.value, bool) for side in sides)
        is_equality = isinstance(node.test.ops[0], ast.Eq) or (is_truth and isinstance(node.test.ops[0], ast.Is))
        return sides if is_equality else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in EQUAL_ASSERTIONS:
        return node.args[:2]
    return []


def is_literal(node: ast.expr) -> bool:
    """Return whether an expression is a literal, such as ``{"a": [1, -2]}``."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def constants(literal: ast.expr) -> Iterator[ast.Constant]:
    """Yield numbers, texts and truth values of a literal, without the keys of dicts and the members of sets."""
    if isinstance(literal, ast.Constant):
        if isinstance(literal.value, str | bytes | bool | int | float):
            yield literal
    elif isinstance(literal, ast.Dict):
        for value in literal.values:
            yield from constants(value)
    elif isinstance(literal, ast.List | ast.Tuple):
        for item in literal.elts:
            yield from constants(item)
