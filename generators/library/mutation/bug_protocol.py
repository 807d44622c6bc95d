"""The generator ``bug_protocol``: a special method that breaks its protocol."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .family import Site
from .places.module_code import Function, ModuleCode
from .places.special_methods import BY_NAME
from .rules import RuleGenerator, RuleKnobs

_BINARY = {
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__add__", "__radd__", "__sub__", "__rsub__",
    "__mul__", "__rmul__", "__truediv__", "__or__", "__ror__", "__and__", "__xor__", "__mod__", "__iadd__",
}  # fmt: skip
DEFAULTED = {
    "__eq__", "__ne__", "__hash__", "__contains__", "__bool__", "__len__", "__reversed__", "__copy__", "__deepcopy__",
    "__missing__", "__exit__", "__getstate__", "__reduce__", "__index__", "__float__", "__delitem__",
}  # fmt: skip
"""Methods without which an object still works for some uses, but differently."""
_LOOKUPS = {"__getattr__", "__getattribute__", "__getitem__", "__missing__", "__delitem__", "__delattr__"}


@dataclass(frozen=True)
class Knobs(RuleKnobs):
    """Which mistakes are made, and what the workspace shows of the tests."""

    kind: Literal[
        "all", "not_implemented", "partial_comparison", "swapped_order", "missing_method", "wrong_result", "iterator",
        "context_manager", "missing_error",
    ] = "all"  # fmt: skip
    """The only kind of mistake to make; ``all`` takes each kind in turn."""


def _method(code: ModuleCode, node: Function) -> Iterator[Site]:
    if not isinstance(code.parents[node], ast.ClassDef) or not node.name.startswith("__"):
        return
    returns = [item for item in ast.walk(node) if isinstance(item, ast.Return)]
    if node.name in DEFAULTED:
        span = code.lines_span(node)
        alone = (
            len(code.block(node)) == 1 or sum(getattr(item, "name", "") == node.name for item in code.block(node)) > 1
        )
        if span is not None and not alone:
            yield from code.spliced("missing_method", span, b"", code.body_lines(node))
    if node.name in _BINARY:
        yield from _binary(code, node, returns)
    elif node.name == "__hash__":
        yield from _partial(code, returns)
    elif node.name in BY_NAME:
        yield from BY_NAME[node.name](code, node, returns)
    if node.name in _LOOKUPS:
        for item in ast.walk(node):
            if isinstance(item, ast.Raise) and len(code.block(item)) == 1:
                yield from code.replaced("missing_error", item, b"return None")


def _binary(code: ModuleCode, node: Function, returns: list[ast.Return]) -> Iterator[Site]:
    for item in returns:
        text = b"" if item.value is None else code.text(item.value)
        if text in (b"NotImplemented", b"False"):
            other = b"False" if text == b"NotImplemented" else b"NotImplemented"
            yield from code.spliced("not_implemented", code.span(item.value), other, item)  # type: ignore[arg-type]
    if node.name in ("__eq__", "__ne__"):
        yield from _partial(code, returns)
    elif node.name in ("__lt__", "__le__", "__gt__", "__ge__", "__sub__", "__radd__", "__rsub__", "__truediv__"):
        for item in returns:
            value = item.value
            if isinstance(value, ast.Compare) and len(value.ops) == 1:
                yield from _exchanged(code, value.left, value.comparators[0], item)
            elif isinstance(value, ast.BinOp):
                yield from _exchanged(code, value.left, value.right, item)


def _exchanged(code: ModuleCode, first: ast.expr, second: ast.expr, at: ast.stmt) -> Iterator[Site]:
    (start, gap), (gap_end, end) = code.span(first), code.span(second)
    sign = code.source[gap:gap_end]
    if b"(" not in sign and b")" not in sign:
        yield from code.spliced("swapped_order", (start, end), code.text(second) + sign + code.text(first), at)


def _partial(code: ModuleCode, returns: list[ast.Return]) -> Iterator[Site]:
    """Yield a comparison or a hash that forgets a part of the value."""
    for item in returns:
        for part in ast.walk(item):
            if isinstance(part, ast.BoolOp) and isinstance(part.op, ast.And):
                for number, value in enumerate(part.values):
                    start, end = code.span(value)
                    start = code.span(part.values[number - 1])[1] if number else start
                    end = end if number else code.span(part.values[1])[0]
                    if code.source[start:end].count(b"(") == code.source[start:end].count(b")"):
                        yield from code.spliced("partial_comparison", (start, end), b"", item)
            elif isinstance(part, ast.Tuple) and len(part.elts) > 1 and code.text(part).startswith(b"("):
                others = [code.text(value) for value in part.elts[:-1]]
                text = b"(" + b", ".join(others) + (b",)" if len(others) == 1 else b")")
                yield from code.replaced("partial_comparison", part, text)


class ProtocolBug(RuleGenerator):
    """Break a protocol in a tested special method: equality, hashing, order, iteration, size or a context manager."""

    name = "bug_protocol"
    version = "4"
    knobs = Knobs
    needs = "special method such as __eq__, __iter__ or __exit__"
    rules = {ast.FunctionDef: (_method,), ast.AsyncFunctionDef: (_method,)}
