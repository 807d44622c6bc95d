"""The generator ``bug_arithmetic``: a wrong number, operator, bound or literal in code that tests run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...python.mutants import ARITHMETIC
from .family import Site
from .places.literals import changed_pattern, changed_text, is_pattern, is_telling
from .places.module_code import ModuleCode, called_name
from .rules import RuleGenerator, RuleKnobs

_OPERANDS = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant
_UNORDERED = ast.Add | ast.Mult | ast.BitAnd | ast.BitOr | ast.BitXor


@dataclass(frozen=True)
class Knobs(RuleKnobs):
    """Which mistakes are made, and what the workspace shows of the tests."""

    kind: Literal["all", "operator", "operands", "constant", "slice", "range", "default", "text", "pattern"] = "all"
    """The only kind of mistake to make; ``all`` takes each kind in turn."""


def _operator(code: ModuleCode, node: ast.BinOp) -> Iterator[Site]:
    texts = (item for item in (node.left, node.right) if isinstance(item, ast.JoinedStr | ast.List | ast.Tuple))
    strings = any(isinstance(item, ast.Constant) and isinstance(item.value, str | bytes) for item in ast.walk(node))
    if strings or any(texts) or type(node.op) not in ARITHMETIC:
        return  # the sign joins or formats texts, so another one would always raise
    pattern, text = ARITHMETIC[type(node.op)]
    yield from code.between("operator", pattern, text, node.left, node.right, node)
    if isinstance(node.op, _UNORDERED) or not (isinstance(node.left, _OPERANDS) and isinstance(node.right, _OPERANDS)):
        return
    (start, first), (second, end) = code.span(node.left), code.span(node.right)
    sign = code.source[first:second]
    if b"(" not in sign and b")" not in sign:
        yield from code.spliced("operands", (start, end), code.text(node.right) + sign + code.text(node.left), node)


def _in_place(code: ModuleCode, node: ast.AugAssign) -> Iterator[Site]:
    number = isinstance(node.value, ast.Constant) and isinstance(node.value.value, int | float)
    in_loop = any(isinstance(item, ast.While) for item in code.around(node))
    if type(node.op) in ARITHMETIC and (number or isinstance(node.op, ast.Mult | ast.Div)) and not in_loop:
        pattern, text = ARITHMETIC[type(node.op)]
        yield from code.between("operator", pattern + rb"=", text + b"=", node.target, node.value, node)


def _constant(code: ModuleCode, node: ast.Constant) -> Iterator[Site]:
    function = code.function(node)
    if function is not None and node in (*function.args.defaults, *function.args.kw_defaults):
        texts = changed_text(code.text(node)) if isinstance(node.value, str) else _other_values(node)
        yield from (site for text in texts for site in code.replaced("default", node, text))
        return
    parent = code.parents[node]
    if isinstance(node.value, str | bytes):
        yield from _text(code, node, parent)
    elif not isinstance(parent, ast.Slice):  # see _slice
        yield from (site for text in _other_values(node)[:1] for site in code.replaced("constant", node, text))


def _text(code: ModuleCode, node: ast.Constant, parent: ast.AST) -> Iterator[Site]:
    source = code.text(node)
    if isinstance(parent, ast.Call) and is_pattern(node, parent):
        yield from (
            site
            for text in changed_pattern(source, called_name(parent))
            for site in code.replaced("pattern", node, text)
        )
    elif is_telling(node, parent):
        yield from (site for text in changed_text(source) for site in code.replaced("text", node, text))


def _other_values(node: ast.Constant) -> list[bytes]:
    """Return other values of the same type that a programmer could have written."""
    value = node.value
    if isinstance(value, bool):
        return [str(not value).encode()]
    if isinstance(value, int):
        return [str(value + 1).encode(), *([str(value - 1).encode()] if value > 0 else [])]
    if isinstance(value, float):
        return [repr(value * 10 if value else 1.0).encode()]
    return []


def _slice(code: ModuleCode, node: ast.Slice) -> Iterator[Site]:
    for bound, step in ((node.lower, 1), (node.upper, -1)):
        if bound is None:
            continue
        text = code.text(bound)
        if re.fullmatch(rb"-?\d+", text):
            yield from code.replaced("slice", bound, str(int(text) + step).encode())
        elif isinstance(bound, _OPERANDS):
            yield from code.replaced("slice", bound, text + (b" + 1" if step > 0 else b" - 1"))
    if isinstance(node.step, ast.UnaryOp) and node.lower is None and node.upper is None:
        yield from code.replaced("slice", node.step, code.text(node.step).lstrip(b"-"))


def _index(code: ModuleCode, node: ast.Subscript) -> Iterator[Site]:
    if isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.UnaryOp) and code.text(node.slice) == b"-1":
        yield from code.replaced("slice", node.slice, b"0")


def _range(code: ModuleCode, node: ast.Call) -> Iterator[Site]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name == "range" and node.args and not any(isinstance(item, ast.Starred) for item in node.args):
        last = node.args[min(1, len(node.args) - 1)]
        for text in (b" - 1", b" + 1"):
            inner = code.text(last) if isinstance(last, _OPERANDS) else b"(" + code.text(last) + b")"
            yield from code.replaced("range", last, inner + text)
        if len(node.args) == 1:
            yield from code.replaced("range", last, b"1, " + code.text(last))
    if name == "enumerate" and len(node.args) == 1 and not node.keywords:
        yield from code.replaced("range", node.args[0], code.text(node.args[0]) + b", 1")


class ArithmeticBug(RuleGenerator):
    """Put one wrong number, arithmetic operator, bound, default or literal into tested code."""

    name = "bug_arithmetic"
    version = "4"
    knobs = Knobs
    needs = "number, arithmetic operator, slice or literal"
    rules = {
        ast.BinOp: (_operator,),
        ast.AugAssign: (_in_place,),
        ast.Constant: (_constant,),
        ast.Slice: (_slice,),
        ast.Subscript: (_index,),
        ast.Call: (_range,),
    }
