"""Changes of a test function after which a right solution fails it: another expected value, or the opposite claim.

Another expected value comes first: what equals everything, or was read in the test's own frame, passes with any. The
new value looks like the old one (a digit or a letter is another of its kind), so that nothing
about a test shows that it has one.
"""

from __future__ import annotations

import ast
import random
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ...python.source import SyntaxSpans, parse

_EQUAL = frozenset({"assertEqual", "assertEquals", "assertListEqual", "assertTupleEqual", "assertDictEqual"})
_OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertFalse": "assertTrue",
    "assertEqual": "assertNotEqual",
    "assertNotEqual": "assertEqual",
    "assertIn": "assertNotIn",
    "assertNotIn": "assertIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsNotNone": "assertIsNone",
    "assertIsInstance": "assertNotIsInstance",
}
_RAISES = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
_OTHER_ERRORS = ("BufferError", "StopAsyncIteration", "FloatingPointError", "BlockingIOError")
"""Exceptions that no solution raises where a test expects one: another right solution must not pass either."""
_MOST_VALUES = 2
"""Most expected values of one kind of place that are tried, so that each kind has its turn."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Literal = str | bytes | bool | int | float


@dataclass(frozen=True)
class Edit:
    """The bytes from ``start`` to ``end`` of a source become ``text``."""

    start: int
    end: int
    text: str


def edits(source: bytes, names: Sequence[str], draw: random.Random) -> Iterator[Edit]:
    """Yield changes of the test that ``names`` lead to (its classes, then its function), best first.

    Yields nothing for a test that is not found in its own class. None of the changes is proven: run them.
    """
    test = _found(source, names)
    if test is None:
        return
    spans = SyntaxSpans(source)
    for values in (_compared_values(test), _named_values(test), _parameters(test)):
        for constant in islice(values, _MOST_VALUES):
            yield Edit(*spans.span(constant), other_value(constant.value, draw))  # type: ignore[arg-type]
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and _name(node.func) in _RAISES and node.args:
            yield Edit(*spans.span(node.args[0]), draw.choice(_OTHER_ERRORS))
            break
    yield from islice(_opposites(test, spans), 1)


def function_source(source: bytes, names: Sequence[str]) -> bytes | None:
    """Return the source of the test that ``names`` lead to, without its decorators; None where it is not found."""
    test = _found(source, names)
    return None if test is None else SyntaxSpans(source).text(test)


def _found(source: bytes, names: Sequence[str]) -> _Function | None:
    try:
        body: Sequence[ast.stmt] = parse(source).body
    except (SyntaxError, ValueError):
        return None
    for name in names[:-1]:
        owner = next((item for item in body if isinstance(item, ast.ClassDef) and item.name == name), None)
        body = owner.body if owner is not None else ()
    matches = [item for item in body if isinstance(item, _Function) and item.name == names[-1]]
    return matches[0] if len(matches) == 1 else None


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _sides(node: ast.AST) -> list[ast.expr]:
    """Return the two sides of an assertion of equality, none for any other node."""
    if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
        sides = [node.test.left, node.test.comparators[0]]
        is_truth = any(isinstance(side, ast.Constant) and isinstance(side.value, bool) for side in sides)
        is_equality = isinstance(node.test.ops[0], ast.Eq) or (is_truth and isinstance(node.test.ops[0], ast.Is))
        return sides if is_equality else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _EQUAL:
        return node.args[:2]
    return []


def _compared_values(test: _Function) -> Iterator[ast.Constant]:
    """Yield constants of literals that an assertion compares with something that is computed."""
    for node in ast.walk(test):
        sides = _sides(node)
        literal = [side for side in sides if _is_literal(side)]
        if len(sides) == 2 and len(literal) == 1:
            yield from _constants(literal[0])


def _named_values(test: _Function) -> Iterator[ast.Constant]:
    """Yield constants of literals that have a name, which an assertion compares with something."""
    compared = {side.id for node in ast.walk(test) for side in _sides(node) if isinstance(side, ast.Name)}
    for node in ast.walk(test):
        if isinstance(node, ast.Assign) and _is_literal(node.value):
            (target, *others) = node.targets
            if not others and isinstance(target, ast.Name) and target.id in compared:
                yield from _constants(node.value)


def _parameters(test: _Function) -> Iterator[ast.Constant]:
    """Yield constants of the last parameter of each case in ``parametrize``: usually the expected value."""
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and _name(decorator.func) == "parametrize" and len(decorator.args) > 1:
            cases = decorator.args[1]
            for case in cases.elts if isinstance(cases, ast.List | ast.Tuple) else ():
                values = case.args if isinstance(case, ast.Call) and _name(case.func) == "param" else [case]
                last = values[-1] if values else case
                if isinstance(last, ast.Tuple) and last.elts:
                    last = last.elts[-1]
                yield from islice(_constants(last), 1)


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _constants(literal: ast.expr) -> Iterator[ast.Constant]:
    """Yield numbers, texts and truth values of a literal, without the keys of dicts and the members of sets."""
    if isinstance(literal, ast.Constant):
        if isinstance(literal.value, _Literal):
            yield literal
    elif isinstance(literal, ast.Dict):
        for value in literal.values:
            yield from _constants(value)
    elif isinstance(literal, ast.List | ast.Tuple):
        for item in literal.elts:
            yield from _constants(item)


def _opposites(test: _Function, spans: SyntaxSpans) -> Iterator[Edit]:
    """Yield the opposite of each assertion, the last first: what comes before it still has to hold."""
    for node in reversed([node for node in ast.walk(test) if isinstance(node, ast.Assert | ast.Call)]):
        if isinstance(node, ast.Assert):
            start, end = spans.span(node.test)
            yield Edit(start, end, f"not ({spans.source[start:end].decode()})")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _OPPOSITES:
            end = spans.span(node.func)[1]
            yield Edit(end - len(node.func.attr), end, _OPPOSITES[node.func.attr])


def other_value(value: _Literal, draw: random.Random) -> str:
    """Return the source of a value of the same type that differs and looks alike."""
    if isinstance(value, bool):
        return repr(not value)
    if isinstance(value, int | float):
        return _other_number(value, draw)
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    places = [place for place, mark in enumerate(text) if mark.isascii() and mark.isalnum()]
    if places:
        place = draw.choice(places)
        text = text[:place] + _other_mark(text[place], draw) + text[place + 1 :]
    else:
        text += draw.choice(string.ascii_lowercase)
    return repr(text.encode("latin-1") if isinstance(value, bytes) else text)


def _other_number(value: float, draw: random.Random) -> str:
    """Return a number in which one digit is another one, but not the first of several."""
    text = repr(value)
    places = [place for place, mark in enumerate(text.partition("e")[0]) if mark.isdigit()]
    if not places:  # inf and nan
        return repr(draw.uniform(1.0, 9.0))
    place = draw.choice(places[1:] or places)
    digits = [digit for digit in string.digits[1:] if digit != text[place]]
    return text[:place] + draw.choice(digits) + text[place + 1 :]


def _other_mark(mark: str, draw: random.Random) -> str:
    """Return another character of the same kind."""
    for group in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
        if mark in group:
            return draw.choice([other for other in group if other != mark])
    return draw.choice(string.ascii_lowercase)
