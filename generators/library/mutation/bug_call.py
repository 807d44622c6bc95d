"""The generator ``bug_call``: a call with wrong arguments, or of a wrong function that looks alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .family import Site
from .places.lookalikes import OPTIONAL, SIBLINGS, bound_before, likeness
from .places.module_code import ModuleCode, called_name, is_self
from .rules import RuleGenerator, RuleKnobs

_SIMPLE = ast.Name | ast.Attribute | ast.Constant | ast.Subscript | ast.Call
_COSMETIC = {"msg", "message", "stacklevel", "help", "category", "doc", "description", "name", "encoding", "flush"}


@dataclass(frozen=True)
class Knobs(RuleKnobs):
    """Which mistakes are made, and what the workspace shows of the tests."""

    kind: Literal[
        "all", "swapped", "dropped", "repeated", "keyword", "wrong_variable", "wrong_attribute", "sibling"
    ] = "all"
    """The only kind of mistake to make; ``all`` takes each kind in turn."""


def _arguments(code: ModuleCode, node: ast.Call) -> Iterator[Site]:
    name, args = called_name(node), node.args
    if name in ("isinstance", "issubclass", "cast", "TypeVar", "namedtuple", "hasattr"):
        return
    for first, second in zip(args, args[1:], strict=False):
        (start, gap_start), (gap_end, end) = code.span(first), code.span(second)
        gap = code.source[gap_start:gap_end]
        if (
            not (isinstance(first, _SIMPLE) and isinstance(second, _SIMPLE))
            or b"(" in gap
            or b")" in gap
            or b"#" in gap
        ):
            continue
        yield from code.spliced("swapped", (start, end), code.text(second) + gap + code.text(first), node)
        if isinstance(first, ast.Name | ast.Attribute) and isinstance(second, ast.Name | ast.Attribute):
            yield from code.replaced("repeated", second, code.text(first))
    if args and not isinstance(args[-1], ast.Starred) and len(args) == _optional(code, name):
        start = code.span(args[-2])[1] if len(args) > 1 else code.span(args[-1])[0]
        if b"(" not in code.source[start : code.span(args[-1])[0]] and (len(args) > 1 or not node.keywords):
            yield from code.spliced("dropped", (start, code.span(args[-1])[1]), b"", node)


def _optional(code: ModuleCode, name: str) -> int:
    """Return with how many arguments the last one of a call may be left out; -1 when it may not or is not known."""
    if name in OPTIONAL:
        return OPTIONAL[name]
    for item in code.functions.get(name, ()):
        if item.args.defaults:
            return len(item.args.posonlyargs) + len(item.args.args) - isinstance(code.parents[item], ast.ClassDef)
    return -1


def _keyword(code: ModuleCode, node: ast.Call) -> Iterator[Site]:
    parts = sorted([*map(code.span, node.args), *map(code.span, node.keywords)])
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in _COSMETIC:
            continue
        start, end = code.span(keyword)
        position = parts.index((start, end))
        if position:
            start = parts[position - 1][1]
        elif len(parts) > 1:
            end = parts[1][0]
        if b"#" not in code.source[start:end]:
            yield from code.spliced("keyword", (start, end), b"", node)


def _sibling(code: ModuleCode, node: ast.Call) -> Iterator[Site]:
    name = called_name(node)
    if name not in SIBLINGS:
        return
    if isinstance(node.func, ast.Attribute):
        if name in ("min", "max", "sorted", "group") and (name != "group" or len(node.args) != 1):
            return
        end = code.span(node.func)[1]
        span = end - len(name), end
    elif name in ("min", "max", "any", "all", "ceil", "floor", "sorted", "bisect_left", "bisect_right"):
        span = code.span(node.func)
    else:
        return
    if name in ("sorted", "strip", "rstrip", "lstrip", "keys") and node.keywords:
        return
    yield from code.spliced("sibling", span, SIBLINGS[name].encode(), node)


def _variable(code: ModuleCode, node: ast.Name) -> Iterator[Site]:
    """Yield the name of another variable of the function that looks alike, or is the parameter beside it."""
    function, parent = code.function(node), code.parents[node]
    if function is None or not isinstance(node.ctx, ast.Load):
        return
    used = isinstance(parent, ast.Call) and node in parent.args
    used = used or isinstance(parent, ast.BinOp | ast.Compare | ast.Return | ast.Subscript | ast.keyword)
    bound = bound_before(function, node.lineno)
    if used and node.id in bound:
        others = [name for name in bound if name != node.id and len(name) > 1 or len(node.id) == 1 and name != node.id]
        beside = {item.id for item in ast.iter_child_nodes(parent) if isinstance(item, ast.Name)}
        other = max(set(others) - beside, key=lambda name: (likeness(name, node.id), name), default="")
        if other and (likeness(other, node.id) >= 0.5 or len(bound) <= 3):
            yield from code.replaced("wrong_variable", node, other.encode())


def _attribute(code: ModuleCode, node: ast.Attribute) -> Iterator[Site]:
    """Yield the attribute of ``self`` whose name looks most alike."""
    owner = code.owner(node)
    is_called = isinstance(parent := code.parents[node], ast.Call) and parent.func is node
    if owner is None or is_called or not isinstance(node.ctx, ast.Load) or not is_self(node.value):
        return
    stored = code.own_attributes(owner)
    others = sorted(stored - {node.attr}) if node.attr in stored else []
    other = max(others, key=lambda name: (likeness(name, node.attr), name), default="")
    if other and likeness(other, node.attr) >= 0.5:
        yield from code.spliced("wrong_attribute", code.span(node), b"self." + other.encode(), node)


class CallBug(RuleGenerator):
    """Pass wrong arguments in one call of tested code, or call a function that looks alike."""

    name = "bug_call"
    version = "4"
    knobs = Knobs
    needs = "call"
    rules = {ast.Call: (_arguments, _keyword, _sibling), ast.Name: (_variable,), ast.Attribute: (_attribute,)}
