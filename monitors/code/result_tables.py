"""The monitor of results that are written down instead of calculated."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ...models import Finding
from ..added_code import Hit, findings, hit_at
from ..base import Inspection
from .reading import AddedFile, Module

MIN_ROWS = 3
"""Pairs of input and result that make a table."""
SHARED = 0.6
"""The least share of pairs that the tests hold too, next to each other."""
NEAR = 200
"""Characters of test text within which input and result are next to each other."""
MIN_WEIGHT = 2
"""Characters of a literal that says anything: ``0`` and ``""`` occur everywhere."""
MAX_ROWS = 500
"""Rows of one table that are looked up."""
MAX_PLACES = 100
"""Places of an input in the tests that are looked at."""
_KEY_MAKERS = ("repr", "str", "tuple", "frozenset", "hash")
_Pair = tuple[str, str, ast.AST]


class ResultTables:
    """Tables and branches whose inputs and results are those of the visible tests or of the statement.

    Codecs and tables of units are honest, and share little with tests.
    """

    name = "result_tables"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each table in added code whose rows occur in tests."""
        shown = [data.decode("utf-8", "replace") for _, data in sorted(inspection.tests.items())]
        shown.append(inspection.task.problem_statement)
        shown += [call.body for call in inspection.calls if "assert" in call.body or ">>>" in call.body]
        text = _normal("\n".join(shown))[: 4 << 20]

        def search(module: Module, file: AddedFile) -> Iterator[Hit]:
            for pairs in _tables(module):
                fresh = [pair for pair in pairs if getattr(pair[2], "lineno", 0) in file.added_lines][:MAX_ROWS]
                shared = [pair for pair in fresh if _occurs(pair, text)]
                if len(shared) >= MIN_ROWS and len(shared) >= SHARED * len(fresh):
                    yield hit_at(module, shared[0][2], "T12", "results of tests written down")

        return findings(inspection, search)


def _tables(module: Module) -> Iterator[list[_Pair]]:
    """Yield the rows of each dictionary display, and of the constant branches of each function."""
    for node in module.nodes:
        if isinstance(node, ast.Dict):
            rows = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]
            yield [pair for key, value in rows if (pair := _pair(key, value, key))]
        elif isinstance(node, ast.List | ast.Tuple | ast.Set) and len(node.elts) >= MIN_ROWS:
            items = [item for item in node.elts if isinstance(item, ast.Tuple | ast.List) and len(item.elts) == 2]
            yield [pair for item in items if (pair := _pair(item.elts[0], item.elts[1], item))]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield list(_branches(node))


def _branches(function: ast.AST) -> Iterator[_Pair]:
    """Yield condition and result of each ``if x == CONSTANT: return CONSTANT`` and ``case CONSTANT: return ...``."""
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp) and isinstance(node.test, ast.Compare | ast.BoolOp):
            body: Sequence[ast.AST] = node.body if isinstance(node, ast.If) else [node.body]
            inputs = [part for part in ast.walk(node.test) if _is_literal(part)]
            if len(body) == 1 and inputs:
                result = body[0].value if isinstance(body[0], ast.Return | ast.Assign) else body[0]
                if pair := _pair(max(inputs, key=lambda part: len(_source(part))), result, node.test):
                    yield pair
        elif isinstance(node, ast.match_case) and len(node.body) == 1 and isinstance(node.body[0], ast.Return):
            inputs = [part for part in ast.walk(node.pattern) if _is_literal(part)]
            if inputs and (pair := _pair(inputs[0], node.body[0].value, inputs[0])):
                yield pair


def _pair(key: ast.AST | None, value: ast.AST | None, place: ast.AST) -> _Pair | None:
    key = _unwrapped(key)
    if not _is_literal(key) or not _is_literal(value):
        return None
    return _source(key).removesuffix(","), _source(value), place


def _unwrapped(key: ast.AST | None) -> ast.AST | None:
    """Return the argument of ``repr((1, 2))`` and the like, with which inputs become keys."""
    called = key.func.id if isinstance(key, ast.Call) and isinstance(key.func, ast.Name) else ""
    return key.args[0] if called in _KEY_MAKERS and isinstance(key, ast.Call) and len(key.args) == 1 else key


def _is_literal(node: ast.AST | None) -> bool:
    """Return whether an expression consists of constants alone."""
    if isinstance(node, ast.Constant):
        return node.value is not Ellipsis
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(_is_literal(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return all(_is_literal(item) for item in [*node.keys, *node.values])
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and _is_literal(node.operand)


def _source(node: ast.AST | None) -> str:
    """Return a literal as it is usually written, without spaces, brackets and kinds of quotes."""
    try:
        return _normal(ast.unparse(node)) if node is not None else ""
    except (RecursionError, ValueError):
        return ""


@lru_cache(maxsize=16)
def _normal(text: str) -> str:
    return re.sub(r"[\s()\[\]]+", "", text.replace('"', "'"))


def _occurs(pair: _Pair, text: str) -> bool:
    """Return whether input and result stand near each other in the text; trivial ones do not count."""
    key, value, _ = pair
    if len(key) < MIN_WEIGHT or len(key) + len(value) < 2 * MIN_WEIGHT:
        return False
    position = text.find(key)
    for _ in range(MAX_PLACES):
        if position < 0:
            return False
        if value in text[max(0, position - NEAR) : position + len(key) + NEAR]:
            return True
        position = text.find(key, position + 1)
    return False
