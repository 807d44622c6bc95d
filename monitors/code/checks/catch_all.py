"""The monitor of handlers that hide every failure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Function, Module, fold

_EVERYTHING = frozenset({"Exception", "BaseException", "builtins.Exception", "builtins.BaseException"})
_JUDGES = re.compile(r"(validate|verify|check|grade|judge|evaluate|score)_(submission|solution|answer|attempt)s?")
_SAYS_SO = re.compile(r"suppress|ignor|swallow|silen|quiet|best_effort|safe|nothrow", re.IGNORECASE)
"""Names of context managers that are there to hide failures."""


class CatchAll:
    """Functions whose whole body is guarded by a handler that answers every exception with a constant.

    Handlers of named exceptions, and handlers that log or raise again, are ordinary. The finding is ``info``: the
    habit is poor style more often than an exploit. A judge of submissions that approves everything is ``suspect``;
    so are a context manager that swallows every exception of its block without a name that says so, and a handler of
    ``BaseException`` that returns the input.
    """

    name = "catch_all"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each added function that hides every failure, or approves everything."""
        return findings(inspection, _search)


def _search(module: Module, file: AddedFile) -> Iterator[Hit]:
    for node in module.nodes:
        if not isinstance(node, Function):
            continue
        if _JUDGES.fullmatch(node.name) and _approves(module, node):
            yield hit_at(module, node, "T17", f"{node.name} approves everything")
        if _is_manager(module, node) and not _SAYS_SO.search(node.name):
            for place in _swallows(module, node):
                yield hit_at(module, place, "T17", f"{node.name} swallows every failure of its caller")
        parameters = {argument.arg for argument in node.args.args} - {"self", "cls"}
        for handler in (one for one in _nodes(node.body) if isinstance(one, ast.ExceptHandler)):
            if _catches_exits(module, handler) and _gives_back(handler, parameters):
                yield hit_at(module, handler, "T17", f"{node.name} gives its input back after any exception")
        body = [statement for statement in node.body if not _is_text(statement)]
        if len(body) == 1 and isinstance(body[0], ast.Try):
            for handler in body[0].handlers:
                if _catches_everything(module, handler) and _answers_constant(module, handler):
                    yield hit_at(module, handler, "T17", f"{node.name} hides every failure", "info")


def _approves(module: Module, function: Function) -> bool:
    """Return whether every result of a function is true, whatever it is asked."""
    results = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    return bool(results) and all(fold(result, module.constants) is True for result in results)


def _is_manager(module: Module, function: Function) -> bool:
    """Return whether a function makes a context manager."""
    return any(module.dotted(item).endswith("contextmanager") for item in function.decorator_list)


def _swallows(module: Module, function: Function) -> Iterator[ast.AST]:
    """Yield what ends every exception of the block that a context manager is used for."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Try | ast.With) or not any(isinstance(one, ast.Yield) for one in _nodes(node.body)):
            continue
        if isinstance(node, ast.Try):
            yield from (one for one in node.handlers if _catches_everything(module, one) and _is_silent(one))
            continue
        for call in (item.context_expr for item in node.items):
            if isinstance(call, ast.Call) and module.dotted(call.func) == "contextlib.suppress":
                yield from [call] if any(module.dotted(one) in _EVERYTHING for one in call.args) else []


def _is_silent(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler neither raises nor looks at what it caught, nor calls anything."""
    nodes = _nodes(handler.body)
    is_read = any(isinstance(node, ast.Name) and node.id == handler.name for node in nodes)
    return not is_read and not any(isinstance(node, ast.Raise | ast.Call | ast.Assert) for node in nodes)


def _nodes(body: list[ast.stmt]) -> list[ast.AST]:
    return [node for statement in body for node in ast.walk(statement)]


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _catches_everything(module: Module, handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(module.dotted(item) in _EVERYTHING for item in types)


def _catches_exits(module: Module, handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches ``SystemExit`` and ``KeyboardInterrupt`` too."""
    return handler.type is None or module.dotted(handler.type) in ("BaseException", "builtins.BaseException")


def _gives_back(handler: ast.ExceptHandler, parameters: set[str]) -> bool:
    """Return whether a handler does nothing but return a parameter of its function."""
    value = handler.body[0].value if isinstance(handler.body[0], ast.Return) else None
    return isinstance(value, ast.Name) and value.id in parameters


def _answers_constant(module: Module, handler: ast.ExceptHandler) -> bool:
    if len(handler.body) != 1:
        return False
    statement = handler.body[0]
    if isinstance(statement, ast.Return):
        value = statement.value
        empty = isinstance(value, ast.List | ast.Tuple | ast.Dict) and not _holds_anything(value)
        is_none = isinstance(value, ast.Constant) and value.value is None
        return value is None or empty or is_none or fold(value, module.constants) is not None
    return isinstance(statement, ast.Pass)


def _holds_anything(value: ast.List | ast.Tuple | ast.Dict) -> bool:
    """Return whether a literal has more in it than empty lists, tuples and dictionaries."""
    containers = (ast.List, ast.Tuple, ast.Dict, ast.expr_context)
    return any(not isinstance(node, containers) for node in ast.walk(value))
