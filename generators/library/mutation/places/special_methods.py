"""What sizes, truth values, iterators and context managers can get wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from ..family import Site
from .module_code import Function, ModuleCode


def _wrong_number(code: ModuleCode, node: Function, returns: list[ast.Return]) -> Iterator[Site]:
    for item in returns:
        if isinstance(item.value, ast.Call | ast.Attribute | ast.Name):
            yield from code.spliced("wrong_result", code.span(item.value), code.text(item.value) + b" + 1", item)


def _wrong_truth(code: ModuleCode, node: Function, returns: list[ast.Return]) -> Iterator[Site]:
    for item in returns:
        if item.value is not None and not isinstance(item.value, ast.Constant):
            yield from code.spliced("wrong_result", code.span(item.value), b"True", item)


def _iterator(code: ModuleCode, node: Function, returns: list[ast.Return]) -> Iterator[Site]:
    for item in returns:
        value = item.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "iter":
            yield from code.spliced("iterator", code.span(value), code.text(value.args[0]), item)
            yield from code.spliced("iterator", code.span(value), b"self", item)
        elif value is not None and code.text(value) != b"self":
            yield from code.spliced("iterator", code.span(value), b"list(" + code.text(value) + b")", item)
    for part in ast.walk(node):
        if isinstance(part, ast.YieldFrom):
            yield from code.spliced("iterator", code.span(part), b"yield " + code.text(part.value), part)
        elif isinstance(part, ast.For) and isinstance(part.iter, ast.Name | ast.Attribute | ast.Call):
            yield from code.replaced("iterator", part.iter, b"list(" + code.text(part.iter) + b")[1:]")


def _next(code: ModuleCode, node: Function, returns: list[ast.Return]) -> Iterator[Site]:
    for item in ast.walk(node):
        if isinstance(item, ast.Raise) and code.text(item).startswith(b"raise StopIteration"):
            yield from code.replaced("iterator", item, b"return None")


def _enter(code: ModuleCode, node: Function, returns: list[ast.Return]) -> Iterator[Site]:
    for item in returns:
        if item.value is not None and len(node.body) > 1:
            yield from code.removed("context_manager", item)
        elif item.value is not None:
            yield from code.replaced("context_manager", item, b"pass")


def _exit(code: ModuleCode, node: Function, returns: list[ast.Return]) -> Iterator[Site]:
    for item in returns:
        if item.value is not None:
            other = b"False" if code.text(item.value) == b"True" else b"True"
            yield from code.spliced("context_manager", code.span(item.value), other, item)
    span = code.lines_span(node.body[-1])
    if not returns and span is not None and code.source[span[0] : span[1]].endswith(b"\n"):
        text = code.indentation(node.body[-1]) + b"return True\n"
        yield from code.spliced("context_manager", (span[1], span[1]), text, node.body[-1])


BY_NAME: dict[str, Callable[[ModuleCode, Function, list[ast.Return]], Iterator[Site]]] = {
    "__len__": _wrong_number,
    "__bool__": _wrong_truth,
    "__contains__": _wrong_truth,
    "__iter__": _iterator,
    "__reversed__": _iterator,
    "__next__": _next,
    "__anext__": _next,
    "__enter__": _enter,
    "__aenter__": _enter,
    "__exit__": _exit,
    "__aexit__": _exit,
}
"""The mistakes of each special method."""
