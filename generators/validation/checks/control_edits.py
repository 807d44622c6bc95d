"""Values of a test function whose change makes a right solution fail the test, and the texts that take their place.

A reader must not see which text is the right one. So the texts of a value differ in one character (a digit in place of
a digit, a letter in place of a letter), or they are names of common exceptions. Where possible the changed word occurs
elsewhere in the file for all texts or for none. The last resort is the opposite of an assertion, which is recognizable.
"""

from __future__ import annotations

import ast
import builtins
import random
import re
import string
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ...python.expected_values import Function, constants, equal_sides, find_test, is_literal
from ...python.source import SyntaxSpans

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
_ERRORS = (
    "ValueError",
    "TypeError",
    "KeyError",
    "IndexError",
    "AttributeError",
    "RuntimeError",
    "ZeroDivisionError",
    "OSError",
)
_MOST_VALUES = 2
"""Most expected values of one kind of place that are tried, so that each kind has its turn."""


@dataclass(frozen=True)
class Choice:
    """A value of a test: its first byte in the file, and its texts, the right one first."""

    start: int
    texts: tuple[str, ...]
    is_hidden: bool = False
    """Whether the rest of the file does not show the right text: it has the changed word of all texts or of none."""


@dataclass(frozen=True)
class Place:
    """Where a test function is in its file: its lines with decorators, and its name."""

    start: int
    end: int
    name_at: int


def choices(source: bytes, names: Sequence[str], draw: random.Random, most: int) -> Iterator[Choice]:
    """Yield values of the test that ``names`` lead to (its classes, then its function), best first.

    Each has at most ``most`` texts. Yields nothing for a test that is not found in its own class. That a solution fails
    the test with another text is not proven: run it.
    """
    test = find_test(source, names)
    if test is None:
        return
    spans = SyntaxSpans(source)
    for values in (_compared_values(test), _named_values(test), _parameters(test)):
        for constant in islice(values, _MOST_VALUES):
            yield from _choice(source, spans.span(constant), draw, most)
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and _name(node.func) in _RAISES and node.args:
            start, end = spans.span(node.args[0])
            yield Choice(start, _other_errors(source[start:end].decode(), draw, most))
            break
    for constant in islice(_arguments(test), _MOST_VALUES):
        yield from _choice(source, spans.span(constant), draw, most)
    yield from islice(_opposites(test, spans), 1)


def _choice(source: bytes, span: tuple[int, int], draw: random.Random, most: int) -> Iterator[Choice]:
    """Yield the choice for the literal at ``span``, if it has other texts."""
    start, end = span
    words = frozenset(re.findall(r"[A-Za-z0-9]+", (source[:start] + b" " + source[end:]).decode("utf-8", "replace")))
    texts = other_texts(source[start:end].decode(), draw, most, words)
    if texts:
        yield Choice(start, texts, len({_changed_word(text, texts) in words for text in texts}) == 1)


def place_of(source: bytes, names: Sequence[str]) -> Place | None:
    """Return where a test function is, None where it is not found or shares its lines."""
    test = find_test(source, names)
    if test is None:
        return None
    spans = SyntaxSpans(source)
    first = spans.span(min([test, *test.decorator_list], key=lambda node: node.lineno))[0]
    start, end = source.rfind(b"\n", 0, first) + 1, spans.span(test)[1]
    name_at = source.find(test.name.encode(), spans.span(test)[0] + len(b"def"))
    remaining = source[end:].split(b"\n", 1)[0].strip()
    is_alone = source[start:first].strip() in (b"", b"@") and (not remaining or remaining.startswith(b"#"))
    return Place(start, end, name_at) if is_alone else None


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _compared_values(test: Function) -> Iterator[ast.Constant]:
    """Yield constants of literals that an assertion compares with something that is computed."""
    for node in ast.walk(test):
        sides = equal_sides(node)
        literal = [side for side in sides if is_literal(side)]
        if len(sides) == 2 and len(literal) == 1:
            yield from constants(literal[0])


def _named_values(test: Function) -> Iterator[ast.Constant]:
    """Yield constants of literals that have a name, which an assertion compares with something."""
    compared = {side.id for node in ast.walk(test) for side in equal_sides(node) if isinstance(side, ast.Name)}
    for node in ast.walk(test):
        if isinstance(node, ast.Assign) and is_literal(node.value):
            (target, *others) = node.targets
            if not others and isinstance(target, ast.Name) and target.id in compared:
                yield from constants(node.value)


def _parameters(test: Function) -> Iterator[ast.Constant]:
    """Yield constants of the last parameter of each case in ``parametrize``: usually the expected value."""
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and _name(decorator.func) == "parametrize" and len(decorator.args) > 1:
            cases = decorator.args[1]
            for case in cases.elts if isinstance(cases, ast.List | ast.Tuple) else ():
                values = case.args if isinstance(case, ast.Call) and _name(case.func) == "param" else [case]
                last = values[-1] if values else case
                if isinstance(last, ast.Tuple) and last.elts:
                    last = last.elts[-1]
                yield from islice(constants(last), 1)


def _arguments(test: Function) -> Iterator[ast.Constant]:
    """Yield constant arguments of the calls in a test, the last call first: helpers often take the expected value."""
    calls = [node for statement in test.body for node in ast.walk(statement) if isinstance(node, ast.Call)]
    for call in reversed(calls):
        for value in reversed([*call.args, *(item.value for item in call.keywords)]):
            if is_literal(value):
                yield from islice(constants(value), 1)


def _opposites(test: Function, spans: SyntaxSpans) -> Iterator[Choice]:
    """Yield the opposite of each assertion, the last first: what comes before it still has to hold."""
    for node in reversed([node for node in ast.walk(test) if isinstance(node, ast.Assert | ast.Call)]):
        if isinstance(node, ast.Assert):
            start, end = spans.span(node.test)
            text = spans.source[start:end].decode()
            yield Choice(start, (text, f"not ({text})"))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _OPPOSITES:
            name = node.func.attr
            yield Choice(spans.span(node.func)[1] - len(name), (name, _OPPOSITES[name]))


def other_texts(text: str, draw: random.Random, most: int, words: Collection[str] = ()) -> tuple[str, ...]:
    """Return a literal's source and others of the same length that differ in one character; () without such.

    ``words`` are those of the file around it: the word that is changed is preferably in all texts one of them, or in
    none, and a number rather than a word.
    """
    if text in ("True", "False"):
        return (text, {"True": "False", "False": "True"}[text])
    if "\\" in text:  # a letter may belong to an escape
        return ()
    value = ast.literal_eval(text) if _is_literal_text(text) else None
    if value is None:
        return ()
    places = [place for place, mark in enumerate(text) if mark.isascii() and mark.isalnum()]
    least = min(most, 5) - 1
    revealing: tuple[str, ...] = ()
    for place in sorted(draw.sample(places, len(places)), key=lambda place: not text[place].isdigit()):
        others = [f"{text[:place]}{mark}{text[place + 1 :]}" for mark in _marks_like(text[place], draw)]
        good = [other for other in others if _differs(other, value)]
        is_near = _word(text, place) in words
        alike = [other for other in good if (_word(other, place) in words) is is_near]
        if len(alike) >= least:
            return (text, *alike[: most - 1])
        if len(good) >= least:
            revealing = revealing or (text, *good[: most - 1])
    return revealing


def _word(text: str, place: int) -> str:
    """Return the letters and digits around a place."""
    return next(match[0] for match in re.finditer(r"[A-Za-z0-9]+", text) if match.start() <= place < match.end())


def _changed_word(text: str, texts: Sequence[str]) -> str:
    """Return the word of ``text`` that is not the same in all ``texts``."""
    place = next((place for place, marks in enumerate(zip(*texts, strict=False)) if len(set(marks)) > 1), 0)
    return _word(text, place) if place < len(text) and text[place].isalnum() else text


def _is_literal_text(text: str) -> bool:
    try:
        return is_literal(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False


def _differs(text: str, value: object) -> bool:
    """Return whether a text is a literal of the same type and length as a value, and another one."""
    if not _is_literal_text(text):
        return False
    other = ast.literal_eval(text)
    if type(other) is not type(value) or other == value:
        return False
    return not isinstance(value, str | bytes) or len(other) == len(value)  # type: ignore[arg-type]


def _marks_like(mark: str, draw: random.Random) -> list[str]:
    """Return the other characters of the same kind, in an order that is drawn."""
    for group in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
        if mark in group:
            return [other for other in draw.sample(group, len(group)) if other != mark]
    return []


def _other_errors(text: str, draw: random.Random, most: int) -> tuple[str, ...]:
    """Return the name of an exception and others that are neither its bases nor derived from it."""
    expected = getattr(builtins, text, None)
    others: list[str] = []
    for name in draw.sample(_ERRORS, len(_ERRORS)):
        other = getattr(builtins, name)
        is_related = isinstance(expected, type) and (issubclass(other, expected) or issubclass(expected, other))
        if name != text and not is_related:
            others.append(name)
    return (text, *others[: most - 1])
