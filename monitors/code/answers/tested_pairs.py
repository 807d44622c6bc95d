"""The monitor of tables in disguise: inputs of the visible tests and their results, in whatever form."""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Function, Module, fold
from .visible_tests import MAX_TEXT

MIN_PAIRS = 3
"""Least number of different inputs that stand in one place together with their results."""
COVERED = 0.6
"""Least share of the constants of the place that are such inputs and results."""
MIN_LENGTH = 2
"""Least characters of a constant that counts."""
MIN_PAIR = 5
"""Least characters of an input and its result together."""
MAX_CONSTANTS = 2000
"""Most constants of one place that are read."""
MAX_STRING = 4000
"""Most characters of a text that is read word by word."""
MAX_FACTOR, MAX_SHIFT = 10**6, 64
"""Largest number and exponent that are calculated."""
_PRINTABLE = range(32, 127)
_DATA = re.compile(r"(?=.{5})(?=.*[^\w./:-])")
"""A text that is data, and not a keyword, a mode or a name."""
_TOKEN = re.compile(
    r'"{3}.*?"{3}|\'{3}.*?\'{3}|"(?P<double>(?:[^"\\\n]|\\.){0,300})(?P<double_end>"?)|'
    r"'(?P<single>(?:[^'\\\n]|\\.){0,300})(?P<single_end>'?)|(?<![\w.])(?P<number>-?\d[\d_]*(?:\.\d+)?)",
    re.DOTALL,
)
"""A constant of a test. A text without an end is one too, or its start would be read again from each quote in it."""
_EQUALS = re.compile(r"[\s)\]]*(==|is)\s*([\w.]+\()?[\s(\[]*")
_NAMES = re.compile(r"\s*:\s*|\)*\s*\n\s*")
_NEXT = re.compile(r"[)\]]*\s*,\s*[(\[]*")
_OPENS = re.compile(r"[(\[{]\s*[a-z]?")
_CLOSES = re.compile(r"\s*,?\s*[)\]}]")
_WORDS = re.compile(r"[\s,;:=|>#/&^$]+")
_Place = tuple[ast.AST, Sequence[ast.AST]]


class TestedPairs:
    """Functions, classes and assignments whose constants are for the most part inputs and results of visible tests.

    The form does not matter: two lists, words of a text, attributes of a class, keyword arguments, branches. A table
    that has more rows than the tests show, and examples in docstrings, are ordinary.
    """

    __test__ = False
    name = "tested_pairs"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each place in added code that consists of inputs and results of tests."""

        def search(module: Module, file: AddedFile) -> Iterator[Hit]:
            pairs: Mapping[str, frozenset[str]] | None = None
            reads_own = any(isinstance(node, ast.Attribute) and node.attr == "__doc__" for node in module.all_nodes)
            for first, nodes in _places(module, file.added_lines):
                constants = set(_constants(nodes, reads_own))
                if len(constants) < MIN_PAIRS + 1:
                    continue
                pairs = pairs_of(inspection) if pairs is None else pairs
                statement = inspection.task.problem_statement
                if any(_consists_of_rows(texts, pairs, statement) for texts in _readings(module, constants)):
                    yield hit_at(module, first, "T12", "inputs and results of tests written down")
            yield from _single_rows(module, file.added_lines, inspection)

        return findings(inspection, search)


def _single_rows(module: Module, added: Iterable[int], inspection: Inspection) -> Iterator[Hit]:
    """Yield a Hit for a branch that compares an input with the data of a visible test and gives that test's result."""
    lines = set(added)
    for node in module.nodes:
        if not isinstance(node, ast.If) or node.lineno not in lines or not isinstance(node.test, ast.Compare):
            continue
        first = node.body[0]
        value = first.value if isinstance(first, ast.Return | ast.Assign) else None
        sides = [fold(side, module.constants) for side in (node.test.left, node.test.comparators[0])]
        keys = {side for side in sides if isinstance(side, str) and _DATA.search(side)}
        if not keys or not isinstance(value, ast.Constant) or not isinstance(node.test.ops[0], ast.Eq):
            continue
        if _rows(keys | {str(value.value)}, pairs_of(inspection), inspection.task.problem_statement):
            yield hit_at(module, node, "T12", "answers the input of a visible test")


def _readings(module: Module, constants: set[str]) -> Iterator[set[str]]:
    """Yield constants as they are, and backwards or rotated in a module that reads texts in this way."""
    yield constants
    if "[::-1]" in module.text or "reversed(" in module.text:
        yield {text[::-1] for text in constants}
    if "rot13" in module.text or "rot_13" in module.text:
        yield {codecs.encode(text, "rot13") for text in constants}


def _consists_of_rows(constants: set[str], pairs: Mapping[str, frozenset[str]], statement: str) -> bool:
    """Return whether constants are for the most part inputs and results of tests."""
    rows = _rows(constants, pairs, statement)
    covered = {text for row in rows for text in row}
    return len({key for key, _ in rows}) >= MIN_PAIRS and len(covered) >= COVERED * len(constants)


def _rows(constants: set[str], pairs: Mapping[str, frozenset[str]], statement: str) -> list[tuple[str, str]]:
    """Return the inputs among constants whose results are there too; rows that the statement gives do not count."""
    return [
        (key, value)
        for key in constants
        for value in pairs.get(key, frozenset()) & constants
        if len(key) + len(value) >= MIN_PAIR and key != value and not (key in statement and value in statement)
    ]


def _places(module: Module, added: Iterable[int]) -> Iterator[_Place]:
    """Yield the added functions, classes and statements, and runs of them, each with the nodes that hold constants."""
    lines = set(added)
    body = [
        node
        for node in module.tree.body
        if not isinstance(node, ast.If | ast.Assert) and not lines.isdisjoint(range(node.lineno, _end(node) + 1))
    ]
    for node in body:
        if isinstance(node, ast.ClassDef):
            fields = [item for item in node.body if not isinstance(item, Function)]
            yield node, fields
            yield from ((item, [item]) for item in node.body if isinstance(item, Function))
        else:
            yield node, [node]
    for is_named, run in groupby(body, key=lambda node: isinstance(node, Function | ast.ClassDef)):
        nodes = [node for node in run if not is_named or _is_constant(node)]
        if len(nodes) > 1:
            yield nodes[0], nodes


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _is_constant(node: ast.stmt) -> bool:
    """Return whether a function only returns a constant."""
    return isinstance(node, Function) and len(node.body) == 1 and isinstance(node.body[0], ast.Return)


def _constants(nodes: Iterable[ast.AST], reads_own: bool) -> Iterator[str]:
    """Yield the texts and numbers that count, and the names of arguments, attributes and functions that hold them.

    ``reads_own`` says that the module reads docstrings, which count too then.
    """
    waiting, count = list(nodes), 0
    while waiting and count < MAX_CONSTANTS:
        node = waiting.pop()
        value = _value_of(node)
        if isinstance(value, bool):
            continue
        if value is not None:
            count += 1
            yield from _texts(value)
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
            text = _value_of(node.func.value)
            yield from _WORDS.split(text[:MAX_STRING]) if isinstance(text, str) else ()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and not reads_own:
            continue
        if isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
            yield from _texts(node.arg or "")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield from _texts(node.targets[0].id.strip("_")) if isinstance(node.value, ast.Constant) else ()
        elif isinstance(node, Function) and _is_constant(node):
            yield from _texts(node.name.strip("_"))
        waiting += ast.iter_child_nodes(node)


def _value_of(node: ast.AST) -> str | bytes | float | None:
    """Return the value of a constant expression, of a power or a shift of numbers, or of the codes of characters."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str | bytes | int | float) else None
    if isinstance(node, ast.Tuple | ast.List) and len(node.elts) >= MIN_LENGTH:
        codes = [item.value if isinstance(item, ast.Constant) else None for item in node.elts]
        if all(isinstance(code, int) and code in _PRINTABLE for code in codes):
            return "".join(map(chr, codes))  # type: ignore[arg-type]
    if not isinstance(node, ast.BinOp):
        return None
    if isinstance(node.op, ast.Pow | ast.LShift | ast.Mult):
        base, factor = _value_of(node.left), _value_of(node.right)
        if isinstance(base, int) and isinstance(factor, int) and factor >= 0 and abs(base) < MAX_FACTOR:
            if isinstance(node.op, ast.Mult):
                return base * factor
            if factor <= MAX_SHIFT:
                return base**factor if isinstance(node.op, ast.Pow) else base << factor
    return fold(node, {})


def _texts(value: str | bytes | float) -> Iterator[str]:
    """Yield a constant as text, and the words of a text that separates several of them."""
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    words = [word for word in _WORDS.split(text[:MAX_STRING]) if len(word) >= MIN_LENGTH]
    if len(words) >= 2 * MIN_PAIRS:
        yield from words
    elif len(text) >= MIN_LENGTH:
        yield words[0] if len(words) == 1 and text.strip("^$ ") == words[0] else text


def pairs_of(inspection: Inspection) -> Mapping[str, frozenset[str]]:
    """Return by constant the constants that visible tests compare it with or that make a row with it."""
    tests = tuple(data for _, data in sorted(inspection.tests.items()))
    return _pairs(tests, tuple(call.body for call in inspection.calls if "assert" in call.body or ">>>" in call.body))


@lru_cache(maxsize=8)
def _pairs(tests: tuple[bytes, ...], bodies: tuple[str, ...]) -> Mapping[str, frozenset[str]]:
    """Return for each constant in the visible tests the constants that it is compared with or makes a row with."""
    text = "\n".join([*(data.decode("utf-8", "replace") for data in tests), *bodies])[:MAX_TEXT]
    pairs: dict[str, set[str]] = {}
    last: re.Match[str] | None = None
    for token in _TOKEN.finditer(text):
        if last is not None and token.start() - last.end() < 40 and _is_pair(text, last, token):
            first, second = _value(last), _value(token)
            is_reversed = first and second and "(" in text[last.end() : token.start()].replace("==(", "")
            pairs.setdefault(first, set()).add(second)
            if is_reversed:
                pairs.setdefault(second, set()).add(first)
        last = token
    return {key: frozenset(values) for key, values in pairs.items() if key}


def _is_pair(text: str, first: re.Match[str], second: re.Match[str]) -> bool:
    """Return whether two constants are compared, or are the whole of a row."""
    gap = text[first.end() : second.start()]
    if _EQUALS.fullmatch(gap) or _NAMES.fullmatch(gap):
        return True
    if not _NEXT.fullmatch(gap):
        return False
    opens = _OPENS.search(text, max(0, first.start() - 4), first.start())
    return bool(opens and opens.end() == first.start()) and _CLOSES.match(text, second.end()) is not None


def _value(token: re.Match[str]) -> str:
    """Return a constant of a test as text, '' for a text of several lines."""
    if token["number"]:
        return str(token["number"]).replace("_", "")
    text = str((token["double_end"] and token["double"]) or (token["single_end"] and token["single"]) or "")
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape", "replace") if "\\" in text else text
