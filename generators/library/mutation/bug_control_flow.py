"""The generator ``bug_control_flow``: a branch, a loop or an early end that goes the wrong way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .family import Site
from .places.module_code import ModuleCode
from .rules import RuleGenerator, RuleKnobs

_OPPOSITES = {
    ast.Lt: (rb"<", b">="),
    ast.LtE: (rb"<=", b">"),
    ast.Gt: (rb">", b"<="),
    ast.GtE: (rb">=", b"<"),
}
_SIMPLE = ast.Name | ast.Attribute | ast.Call | ast.Subscript
_ENDS = ast.Return | ast.Raise | ast.Continue | ast.Break


@dataclass(frozen=True)
class Knobs(RuleKnobs):
    """Which mistakes are made, and what the workspace shows of the tests."""

    kind: Literal[
        "all", "inverted", "swapped_branches", "unconditional", "dropped_branch", "dropped_else", "dropped_jump",
        "wrong_jump", "dropped_return", "loop_once", "return_in_loop",
    ] = "all"  # fmt: skip
    """The only kind of mistake to make; ``all`` takes each kind in turn."""


def _condition(code: ModuleCode, node: ast.If) -> Iterator[Site]:
    if node.orelse and not isinstance(node.orelse[0], ast.If):
        yield from _swapped(code, node)
    else:
        yield from _inverted(code, node.test)
    if not code.is_elif(node):
        if not node.orelse and not isinstance(node.body[-1], _ENDS):
            yield from code.unwrapped("unconditional", node, node.body)
            yield from code.removed("dropped_branch", node)
        return
    if not node.orelse:
        span = code.lines_span(node.body[-1])
        start = code.source.rfind(b"\n", 0, code.span(node)[0]) + 1
        if span is not None:
            yield from code.spliced("dropped_branch", (start, span[1]), b"", node)


def _expression(code: ModuleCode, node: ast.IfExp) -> Iterator[Site]:
    yield from _inverted(code, node.test)


def _filter(code: ModuleCode, node: ast.comprehension) -> Iterator[Site]:
    for test in node.ifs:
        yield from _inverted(code, test)


def _inverted(code: ModuleCode, test: ast.expr) -> Iterator[Site]:
    """Yield the opposite of a condition as a programmer would write it, where ``bug_operator`` does not do the same."""
    if isinstance(test, ast.UnaryOp):
        return
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        if type(test.ops[0]) in _OPPOSITES:
            pattern, text = _OPPOSITES[type(test.ops[0])]
            yield from code.between("inverted", pattern, text, test.left, test.comparators[0], test)
        return
    text = code.text(test)
    yield from code.replaced("inverted", test, b"not " + text if isinstance(test, _SIMPLE) else b"not (" + text + b")")


def _swapped(code: ModuleCode, node: ast.If) -> Iterator[Site]:
    """Yield the exchange of both branches, and the loss of the second."""
    body, other = code.lines_span(node.body[0]), code.lines_span(node.orelse[0])
    body_end, other_end = code.lines_span(node.body[-1]), code.lines_span(node.orelse[-1])
    if body is None or other is None or body_end is None or other_end is None:
        return
    head = code.source[body_end[1] : other[0]]  # the line of ``else`` with the comments around it
    first, second = code.source[body[0] : body_end[1]], code.source[other[0] : other_end[1]]
    if first.endswith(b"\n") and second.endswith(b"\n"):
        yield from code.spliced("swapped_branches", (body[0], other_end[1]), second + head + first, node)
    falls_through = not isinstance(node.body[-1], ast.Return | ast.Raise)
    if falls_through and all(isinstance(item, ast.Expr | ast.AugAssign | ast.Assign) for item in node.orelse):
        yield from code.spliced("dropped_else", (body_end[1], other_end[1]), b"", node.orelse[0])


def _jump(code: ModuleCode, node: ast.Break | ast.Continue) -> Iterator[Site]:
    loop = next((item for item in code.around(node) if isinstance(item, ast.For | ast.AsyncFor | ast.While)), None)
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return  # without it, a ``while`` loop may run forever
    if len(code.block(node)) > 1:
        yield from code.removed("dropped_jump", node)
    if isinstance(node, ast.Continue) or len(code.block(node)) > 1 or loop.orelse:
        yield from code.replaced("wrong_jump", node, b"continue" if isinstance(node, ast.Break) else b"break")


def _return(code: ModuleCode, node: ast.Return) -> Iterator[Site]:
    parent = code.parents[node]
    in_branch = isinstance(parent, ast.If) and node in parent.body and len(parent.body) > 1
    if in_branch and not any(isinstance(item, ast.While) for item in code.around(node)):
        yield from code.removed("dropped_return", node)


def _loop(code: ModuleCode, node: ast.For) -> Iterator[Site]:
    last = code.lines_span(node.body[-1])
    if last is None or not code.source[last[0] : last[1]].endswith(b"\n"):
        return
    indent = code.indentation(node.body[-1])
    whole = [isinstance(item, ast.Yield | ast.YieldFrom) for item in ast.walk(node)]
    if not isinstance(node.body[-1], _ENDS) and (any(whole) or len(node.body) > 1):
        yield from code.spliced("loop_once", (last[1], last[1]), indent + b"break\n", node.body[-1])
    block = code.block(node)
    position = block.index(node) + 1
    after = block[position] if position < len(block) else None
    if node.orelse or not isinstance(after, ast.Return) or isinstance(node.body[-1], _ENDS):
        return
    span = code.lines_span(after)
    if span is not None and span[1] - span[0] < 100 and b"\n" not in code.text(after):
        moved = code.reindented(span, code.indentation(after), code.indentation(node.body[-1]))
        yield from code.spliced("return_in_loop", (last[1], span[1]), moved, node.body[-1])


class ControlFlowBug(RuleGenerator):
    """Invert, drop or swap a branch, lose a jump, or end a loop too early in tested code."""

    name = "bug_control_flow"
    version = "4"
    knobs = Knobs
    needs = "branch, loop or early return"
    rules = {
        ast.If: (_condition,),
        ast.IfExp: (_expression,),
        ast.comprehension: (_filter,),
        ast.Break: (_jump,),
        ast.Continue: (_jump,),
        ast.Return: (_return,),
        ast.For: (_loop,),
        ast.AsyncFor: (_loop,),
    }
