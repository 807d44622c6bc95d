"""Slowdowns: edits after which a function does more work for the same results.

Only work that a count of operations shows is added: a copy within C code, as that of ``text += part``, has no
operation to count, so joins stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ....python.source import Edit, SyntaxSpans, apply_edits

Kind = Literal["lookup", "early exit", "cache"]
Function = ast.FunctionDef | ast.AsyncFunctionDef
_CACHES = ("lru_cache", "cache")


@dataclass(frozen=True)
class Slowdown:
    """A module in which one function does more work."""

    kind: Kind
    line: int  # a line of the changed code, 1-based
    source: bytes  # the whole file


def slowdowns(source: SyntaxSpans, function: Function) -> Iterator[Slowdown]:
    """Yield the slowdowns of a function, in file order of their kinds."""
    for kind, line, edits in [
        *_lookups(source, function),
        *_scans(source, function),
        *_early_exits(source, function),
        *_caches(source, function),
    ]:
        yield Slowdown(kind, line, apply_edits(source.source, edits))


_Change = tuple[Kind, int, list[Edit]]


def _lookups(source: SyntaxSpans, function: Function) -> Iterator[_Change]:
    """Yield the changes of a local set, which only membership and ``add`` use, into a list."""
    for statement in ast.walk(function):
        if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
            continue
        target, value = statement.targets[0], statement.value
        if not (isinstance(target, ast.Name) and isinstance(value, ast.Call) and isinstance(value.func, ast.Name)):
            continue
        if value.func.id not in ("set", "frozenset") or value.keywords:
            continue
        adds = _adds(function, target.id)
        if adds is None:
            continue
        new = b"list(" + source.text(value.args[0]) + b")" if value.args else b"[]"
        edits: list[Edit] = [(source.span(value), new)]
        for node in adds:
            end = source.span(node)[1]
            edits.append(((end - len("add"), end), b"append"))
        yield "lookup", statement.lineno, edits


def _adds(function: Function, name: str) -> list[ast.Attribute] | None:
    """Return the uses ``name.add`` of a local set; None when it is bound twice or used for more than membership."""
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    adds, tested, bound = [], False, 0
    for node in ast.walk(function):
        if isinstance(node, ast.arg) and node.arg == name:
            return None
        if not (isinstance(node, ast.Name) and node.id == name):
            continue
        parent = parents[node]
        if isinstance(node.ctx, ast.Store):
            bound += 1
        elif isinstance(parent, ast.Attribute) and parent.attr == "add":
            call = parents.get(parent)
            if isinstance(call, ast.Call):
                adds.append(parent)
                continue
            binding = call  # ``seen_add = seen.add``
            if not isinstance(binding, ast.Assign):
                return None
            adds.append(parent)
        elif isinstance(parent, ast.Compare) and isinstance(parent.ops[-1], ast.In | ast.NotIn):
            tested = True
        else:
            return None
    return adds if tested and bound == 1 else None


def _scans(source: SyntaxSpans, function: Function) -> Iterator[_Change]:
    """Yield the changes of a membership test on a local set or dict into one on a list of its elements."""
    bound: dict[str, bool] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            bound[name] = bound.get(name, True) and _is_table(node.value)
        elif isinstance(node, ast.arg):
            bound[node.arg] = False
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
            table = node.comparators[0]
            if isinstance(table, ast.Name) and bound.get(table.id):
                yield "lookup", node.lineno, [(source.span(table), b"list(" + source.text(table) + b")")]


def _is_table(node: ast.expr) -> bool:
    """Return whether an expression makes a set or a dict."""
    if isinstance(node, ast.Call):
        callee = ast.unparse(node.func).rpartition(".")[2]
        return callee in ("set", "dict", "OrderedDict", "defaultdict", "Counter")
    if isinstance(node, ast.Dict):
        return not node.keys  # one with keys does not grow with the input
    return isinstance(node, ast.DictComp | ast.SetComp)


def _early_exits(source: SyntaxSpans, function: Function) -> Iterator[_Change]:
    """Yield the changes that read a whole input although its start decides."""
    arguments = function.args
    inputs = {item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    lazy = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            generator = node.args[0]
            if not (isinstance(generator, ast.GeneratorExp) and _is_input(generator.generators[0].iter, inputs)):
                continue
            start, end = source.span(generator)
            inner = source.source[start:end]
            bare = inner[1:-1] if inner.startswith(b"(") and inner.endswith(b")") else inner
            if node.func.id in ("any", "all") and len(node.args) == 1:
                opening = b"([" if inner.startswith(b"(") and end == source.span(node)[1] else b"["
                closing = b"])" if opening == b"([" else b"]"
                yield "early exit", node.lineno, [((start, end), opening + bare + closing)]
            elif node.func.id == "next":
                yield "early exit", node.lineno, [((start, end), b"iter([" + bare + b"])")]
        elif isinstance(node, ast.For) and not lazy and _is_input(node.iter, inputs):
            leaves = any(isinstance(item, ast.Return) for statement in node.body for item in ast.walk(statement))
            if leaves and isinstance(node.target, ast.Name | ast.Tuple):
                text = b"[each for each in " + source.text(node.iter) + b"]"
                yield "early exit", node.lineno, [(source.span(node.iter), text)]


def _is_input(node: ast.expr, inputs: set[str]) -> bool:
    """Return whether an iterated value is a parameter, or a call such as ``enumerate(items)`` of one."""
    if isinstance(node, ast.Call):
        return any(isinstance(item, ast.Name) and item.id in inputs for item in node.args)
    return isinstance(node, ast.Name) and node.id in inputs


def _caches(source: SyntaxSpans, function: Function) -> Iterator[_Change]:
    """Yield the function without the decorator that caches its results."""
    for decorator in function.decorator_list:
        name = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(name).rpartition(".")[2] in _CACHES:
            start, end = source.span(decorator)
            start = source.source.rindex(b"@", 0, start)
            following = source.source.index(b"\n", end) + 1
            indent = len(source.source[following:]) - len(source.source[following:].lstrip(b" \t"))
            yield "cache", function.lineno, [((start, following + indent), b"")]
