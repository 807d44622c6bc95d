"""The monitor of results that are written down instead of calculated."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Function, Module
from .visible_tests import is_built, is_literal, shown_text, source_of

MIN_ROWS = 3
"""Least number of pairs of input and result that make a table."""
MIN_RETURNED = 2
"""The same where a function only looks its result up in the table."""
SHARED = 0.6
"""Least share of the pairs whose input and result also stand next to each other in the tests."""
NEAR = 200
"""Characters of test text around an input in which its result is sought."""
MIN_WEIGHT = 2
"""Least length of a literal that counts: ``0`` and ``""`` occur everywhere."""
MAX_ROWS = 500
"""Most rows of one table that are read."""
MAX_PACKED = 20_000
"""Most characters of a string that is read as a table."""
MAX_PLACES = 100
"""Most places of one input in the tests that are read."""
_KEY_MAKERS = ("repr", "str", "tuple", "frozenset", "hash")
_Pair = tuple[str, str, ast.AST, str]
"""Input and result as they are written, the place, and the longest part of a result of several values."""


class ResultTables:
    """Tables and branches whose inputs and results are those of the visible tests or of the statement.

    Codecs and tables of units are honest, and share little with tests.
    """

    name = "result_tables"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each table in added code whose rows occur in tests."""

        def search(module: Module, file: AddedFile) -> Iterator[Hit]:
            types = _annotations(module)
            for pairs, least in _tables(module):
                code = [pair for pair in pairs if id(pair[2]) not in types]
                fresh = [pair for pair in code if getattr(pair[2], "lineno", 0) in file.added_lines][:MAX_ROWS]
                if len(fresh) < least:
                    continue
                text = shown_text(inspection)
                weighty = [pair for pair in fresh if _weighs(pair)] if least < MIN_ROWS else fresh
                shared = [pair for pair in weighty if _occurs(pair, text)]
                if len(shared) >= least and len(shared) >= SHARED * len(weighty):
                    yield hit_at(module, shared[0][2], "T12", "results of tests written down")

        return findings(inspection, search)


def _annotations(module: Module) -> set[int]:
    """Return the ids of the nodes in annotations, where a tuple is not a table."""
    roots = [getattr(node, name, None) for node in module.nodes for name in ("annotation", "returns")]
    return {id(node) for root in roots if isinstance(root, ast.AST) for node in ast.walk(root)}


def _tables(module: Module) -> Iterator[tuple[list[_Pair], int]]:
    """Yield the rows of each dictionary display, and of the constant branches of each function.

    With them comes the number of rows that make a table: fewer where a look-up in them is all that is returned.
    """
    returned = set(_returned(module))
    yield from ((pairs, MIN_ROWS) for pairs in _side_by_side(module))
    yield from ((pairs, MIN_ROWS) for pairs in _entries(module))
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield list(_packed(node)), MIN_ROWS
        elif isinstance(node, ast.Dict):
            rows = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]
            pairs = [pair for key, value in rows if (pair := _pair(key, value, key))]
            yield pairs, MIN_RETURNED if id(node) in returned else MIN_ROWS
        elif isinstance(node, ast.List | ast.Tuple | ast.Set) and len(node.elts) >= MIN_ROWS:
            items = [item for item in node.elts if isinstance(item, ast.Tuple | ast.List) and len(item.elts) == 2]
            yield [pair for item in items if (pair := _pair(item.elts[0], item.elts[1], item))], MIN_ROWS
        elif isinstance(node, Function):
            yield list(_branches(node)), MIN_ROWS


def _returned(module: Module) -> Iterator[int]:
    """Yield the ids of the dictionary displays of which a function returns an entry, directly or by a local name."""
    for node in module.nodes:
        if isinstance(node, ast.Return):
            values = node.value.elts[:1] if isinstance(node.value, ast.Tuple) else [node.value]
            yield from (id(table) for value in values if isinstance(table := _looked_up(value), ast.Dict))
        elif isinstance(node, Function):
            tables = {item.targets[0].id: item.value for item in node.body if _names_display(item)}  # type: ignore[attr-defined]
            for inner in ast.walk(node) if tables else ():
                value = inner.value if isinstance(inner, ast.Return) else None
                table = _looked_up(value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value)
                if isinstance(table, ast.Name) and table.id in tables:
                    yield id(tables[table.id])


def _names_display(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Dict)


def _looked_up(node: ast.AST | None) -> ast.AST | None:
    """Return what ``table[key]`` and ``table.get(key)`` look something up in; None for another expression."""
    if isinstance(node, ast.Subscript):
        return node.value
    is_get = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop")
    return node.func.value if is_get else None  # type: ignore[union-attr]


def _side_by_side(module: Module) -> Iterator[list[_Pair]]:
    """Yield the items of two lists of the same length, one after the other: inputs here and results there."""
    displays = [
        node
        for node in module.nodes
        if isinstance(node, ast.List | ast.Tuple) and len(node.elts) >= MIN_ROWS and is_literal(node)
    ]
    displays.sort(key=lambda node: (node.lineno, node.col_offset))
    for first, second in zip(displays, displays[1:], strict=False):
        if len(first.elts) == len(second.elts):
            rows = zip(first.elts[:MAX_ROWS], second.elts[:MAX_ROWS], strict=True)
            yield [pair for key, value in rows if (pair := _pair(key, value, key))]


def _entries(module: Module) -> Iterator[list[_Pair]]:
    """Yield the rows that single assignments give to a table: ``TABLE["input"] = "result"``."""
    rows: dict[str, list[_Pair]] = {}
    for node in module.nodes:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name | ast.Attribute):
            continue
        if pair := _pair(target.slice, node.value, target):  # type: ignore[attr-defined]
            rows.setdefault(ast.unparse(target.value), []).append(pair)
    yield from rows.values()


def _in_lines(node: ast.Constant, text: str) -> Iterator[_Pair]:
    """Yield the rows of a table with two columns in the lines of a string."""
    mark = next((mark for mark in ("\t", "|", ";", "=>", "->", "=", ",") if mark in text.partition("\n")[0]), "")
    lines = [line.strip().split(mark) for line in text.splitlines()[:MAX_ROWS]] if mark else []
    if len(lines) >= MIN_ROWS and all(len(line) == 2 for line in lines):
        for key, value in lines:
            is_number = re.fullmatch(r"(0|[1-9]\d{0,18})(\.\d{1,18})?", value.strip()) is not None
            result = ast.parse(value.strip(), mode="eval").body if is_number else ast.Constant(value.strip())
            pair = _pair(ast.Constant(key.strip()), result, node)
            if pair is not None:
                yield pair


def _packed(node: ast.Constant) -> Iterator[_Pair]:
    """Yield the rows of a table that is written down as JSON or as a Python literal in a string."""
    text = str(node.value).strip()
    if len(text) > MAX_PACKED:
        return
    if text[:1] not in ("{", "["):
        yield from _in_lines(node, text) if "\n" in text else ()
        return
    try:
        table = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return
    if isinstance(table, ast.Dict):
        rows = list(zip(table.keys, table.values, strict=True))
    else:
        items = table.elts if isinstance(table, ast.List | ast.Tuple) else []
        rows = [(item.elts[0], item.elts[1]) for item in items if isinstance(item, ast.List) and len(item.elts) == 2]
    yield from (pair for key, value in rows[:MAX_ROWS] if (pair := _pair(key, value, node)))


def _branches(function: ast.AST) -> Iterator[_Pair]:
    """Yield condition and result of each ``if x == CONSTANT: return CONSTANT`` and ``case CONSTANT: return ...``."""
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp) and isinstance(node.test, ast.Compare | ast.BoolOp):
            body: Sequence[ast.AST] = node.body if isinstance(node, ast.If) else [node.body]
            inputs = [part for part in ast.walk(node.test) if is_literal(part)]
            if len(body) == 1 and inputs:
                result = body[0].value if isinstance(body[0], ast.Return | ast.Assign) else body[0]
                if pair := _pair(max(inputs, key=lambda part: len(source_of(part))), result, node.test):
                    yield pair
        elif isinstance(node, ast.match_case) and len(node.body) == 1 and isinstance(node.body[0], ast.Return):
            inputs = [part for part in ast.walk(node.pattern) if is_literal(part)]
            if inputs and (pair := _pair(inputs[0], node.body[0].value, inputs[0])):
                yield pair


def _pair(key: ast.AST | None, value: ast.AST | None, place: ast.AST) -> _Pair | None:
    key = _unwrapped(key)
    if isinstance(value, ast.Lambda) and not value.args.args:
        value = value.body
    if not is_literal(key) or not is_built(value):
        return None
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
    longest = max(map(source_of, parts), key=len, default="")
    return source_of(key).removesuffix(","), source_of(value), place, longest


def _unwrapped(key: ast.AST | None) -> ast.AST | None:
    """Return the argument of a call that makes a key, as ``repr((1, 2))``; any other expression as it is."""
    called = key.func.id if isinstance(key, ast.Call) and isinstance(key.func, ast.Name) else ""
    return key.args[0] if called in _KEY_MAKERS and isinstance(key, ast.Call) and len(key.args) == 1 else key


def _weighs(pair: _Pair) -> bool:
    """Return whether a row says anything; ``0`` and ``""`` occur everywhere."""
    return len(pair[0]) > 2 * MIN_WEIGHT and len(pair[0]) + len(pair[1]) > 4 * MIN_WEIGHT


def _stands_in(value: str, text: str) -> bool:
    """Return whether a result stands in a text; a number not as a part of another one."""
    if value.isdigit() and len(value) < 20:
        return re.search(rf"(?<![\d.]){value}(?![\d.])", text) is not None
    return value in text


def _occurs(pair: _Pair, text: str) -> bool:
    """Return whether input and result stand near each other in the text; trivial ones do not count.

    Of a result of several values, the longest text among them is enough.
    """
    key, value, _, longest = pair
    if len(key) < MIN_WEIGHT or len(key) + len(value) < 2 * MIN_WEIGHT:
        return False
    expected = [value, *([longest] if len(longest) >= 2 * MIN_WEIGHT else [])]
    position = text.find(key)
    for _ in range(MAX_PLACES):
        if position < 0:
            return False
        near = text[max(0, position - NEAR) : position + len(key) + NEAR]
        if any(_stands_in(one, near) for one in expected):
            return True
        position = text.find(key, position + 1)
    return False
