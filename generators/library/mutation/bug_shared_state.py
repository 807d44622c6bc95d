"""The generator ``bug_shared_state``: state that is shared, or used up, where each use needs its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .family import Site
from .places.containers import empty_container, made_when_missing
from .places.module_code import Function, ModuleCode, called_name, is_self
from .rules import RuleGenerator, RuleKnobs

_READERS = {"sorted", "len", "sum", "min", "max", "any", "all", "list", "tuple", "set", "dict", "join", "frozenset"}
_COPIES = {"list", "dict", "set", "tuple", "copy", "deepcopy", "frozenset"}


@dataclass(frozen=True)
class Knobs(RuleKnobs):
    """Which mistakes are made, and what the workspace shows of the tests."""

    kind: Literal[
        "all", "mutable_default", "dropped_copy", "shallow_copy", "cache_key", "exhausted", "shared_element",
        "shared_attribute", "shared_over_loop",
    ] = "all"  # fmt: skip
    """The only kind of mistake to make; ``all`` takes each kind in turn."""


def _default(code: ModuleCode, node: Function) -> Iterator[Site]:
    """Yield ``x=[]`` in place of ``x=None`` with ``if x is None: x = []`` in the body."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    optional = list(zip(arguments[len(arguments) - len(node.args.defaults) :], node.args.defaults, strict=True))
    optional += [
        (item, value) for item, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value
    ]
    for argument, value in optional:
        if not (isinstance(value, ast.Constant) and value.value is None):
            continue
        for statement in node.body:
            empty = made_when_missing(code, statement, argument.arg)
            span = code.lines_span(statement)
            if empty and span is not None and len(node.body) > 1:
                between = code.source[code.span(value)[1] : span[0]]
                lines = code.lines_of(statement)
                yield from code.spliced("mutable_default", (code.span(value)[0], span[1]), empty + between, lines)


def _copy(code: ModuleCode, node: ast.Call) -> Iterator[Site]:
    function = node.func
    name = (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )
    if name not in _COPIES or node.keywords or _is_used_up(code.parents[node]):
        return
    method = isinstance(function, ast.Attribute) and not (
        isinstance(function.value, ast.Name) and function.value.id == "copy"
    )
    if method and name == "copy" and not node.args:
        yield from code.replaced("dropped_copy", node, code.text(function.value))  # type: ignore[attr-defined]
    if method or len(node.args) != 1:
        return
    if name == "deepcopy":
        shallow = b"copy.copy" if isinstance(function, ast.Attribute) else b""
        if shallow:
            yield from code.spliced("shallow_copy", code.span(function), shallow, node)
    if isinstance(node.args[0], ast.Name | ast.Attribute | ast.Subscript) or name in ("copy", "deepcopy"):
        yield from code.replaced("dropped_copy", node, code.text(node.args[0]))
    elif isinstance(node.args[0], ast.Call | ast.GeneratorExp) and name in ("list", "tuple"):
        yield from _exhausted(code, node, b"iter" + code.source[code.span(function)[1] : code.span(node)[1]])


def _is_used_up(parent: ast.AST) -> bool:
    """Return whether a copy goes straight to code that would treat the original alike."""
    unpacked = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple)
    return unpacked or (isinstance(parent, ast.Call) and called_name(parent) in _READERS)


def _whole_slice(code: ModuleCode, node: ast.Subscript) -> Iterator[Site]:
    if isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Slice) and code.text(node.slice) == b":":
        yield from code.replaced("dropped_copy", node, code.text(node.value))


def _comprehension(code: ModuleCode, node: ast.ListComp) -> Iterator[Site]:
    element = empty_container(code, node.elt)
    parts, source = node.generators, node.generators[0].iter
    counted = isinstance(source, ast.Call) and called_name(source) == "range" and len(source.args) == 1
    if element and len(parts) == 1 and not parts[0].ifs and counted:
        yield from code.replaced("shared_element", node, b"[" + element + b"] * " + code.text(source.args[0]))  # type: ignore[attr-defined]
    yield from _exhausted(code, node, b"(" + code.text(node)[1:-1] + b")")


def _mapping(code: ModuleCode, node: ast.DictComp) -> Iterator[Site]:
    element, part = empty_container(code, node.value), node.generators[0]
    if element and len(node.generators) == 1 and not part.ifs and code.text(node.key) == code.text(part.target):
        yield from code.replaced(
            "shared_element", node, b"dict.fromkeys(" + code.text(part.iter) + b", " + element + b")"
        )


def _exhausted(code: ModuleCode, node: ast.expr, text: bytes) -> Iterator[Site]:
    """Yield an iterator in place of a list that the function goes through more than once."""
    parent, function = code.parents[node], code.function(node)
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name) or function is None:
        return
    name = parent.targets[0].id
    uses = [item for item in ast.walk(function) if isinstance(item, ast.Name) and item.id == name]
    reads = [item for item in uses if isinstance(item.ctx, ast.Load)]
    indexed = any(isinstance(code.parents[item], ast.Subscript | ast.Attribute) for item in reads)
    if len(reads) >= 2 and not indexed:
        yield from code.replaced("exhausted", node, text)


def _cache_key(code: ModuleCode, node: ast.Tuple) -> Iterator[Site]:
    parent = code.parents[node]
    names = [code.text(item).lower() for item in parent.targets] if isinstance(parent, ast.Assign) else []
    if isinstance(parent, ast.Subscript):
        names = [code.text(parent.value).lower()]
    words = (b"key", b"cache", b"memo", b"seen")
    if len(node.elts) < 2 or not any(word in name for name in names for word in words):
        return
    for number, item in enumerate(node.elts):
        others = [code.text(other) for other in node.elts if other is not item]
        ends = b"(", (b",)" if len(others) == 1 else b")")
        bare = not code.text(node).startswith(b"(")
        text = b", ".join(others) + (b"," if bare and len(others) == 1 else b"")
        if number < len(node.elts):
            yield from code.replaced("cache_key", node, text if bare else ends[0] + b", ".join(others) + ends[1])


def _attribute(code: ModuleCode, node: ast.Assign) -> Iterator[Site]:
    """Yield an attribute of the class, shared by all instances, in place of one that ``__init__`` makes."""
    function, owner, target = code.function(node), code.owner(node), node.targets[0]
    if function is None or owner is None or function.name != "__init__" or code.parents[node] is not function:
        return
    empty, span, first = empty_container(code, node.value), code.lines_span(node), code.lines_span(function)
    if not isinstance(target, ast.Attribute) or not is_self(target.value):
        return
    if not (empty and span and first and len(function.body) > 1):
        return
    if any(isinstance(item, ast.Name) and item.id == "__slots__" for item in ast.walk(owner)):
        return
    line = code.indentation(function) + target.attr.encode() + b" = " + empty + b"\n\n"
    yield from code.spliced("shared_attribute", (first[0], span[1]), line + code.source[first[0] : span[0]], node)


def _loop(code: ModuleCode, node: ast.For) -> Iterator[Site]:
    """Yield a container that is made once before a loop in place of once in each round."""
    first = node.body[0]
    if not isinstance(first, ast.Assign) or not isinstance(first.targets[0], ast.Name) or len(node.body) < 2:
        return
    span, head = code.lines_span(first), code.source.rfind(b"\n", 0, code.span(node)[0]) + 1
    if span is not None and empty_container(code, first.value):
        moved = code.reindented(span, code.indentation(first), code.indentation(node))
        yield from code.spliced("shared_over_loop", (head, span[1]), moved + code.source[head : span[0]], first)


class SharedStateBug(RuleGenerator):
    """Share a container, drop a copy, shorten a cache key or use up an iterator in tested code."""

    name = "bug_shared_state"
    version = "4"
    knobs = Knobs
    needs = "copy, default, cache key, list or attribute that could be shared"
    rules = {
        ast.FunctionDef: (_default,),
        ast.AsyncFunctionDef: (_default,),
        ast.Call: (_copy,),
        ast.Subscript: (_whole_slice,),
        ast.ListComp: (_comprehension,),
        ast.DictComp: (_mapping,),
        ast.Tuple: (_cache_key,),
        ast.Assign: (_attribute,),
        ast.For: (_loop,),
    }
