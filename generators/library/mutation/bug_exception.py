"""The generator ``bug_exception``: an error that is not caught, caught by mistake, or raised with a wrong type."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .family import Site
from .places.module_code import ModuleCode, is_lock
from .rules import RuleGenerator, RuleKnobs

_SIBLINGS = {
    "KeyError": "IndexError", "IndexError": "KeyError", "AttributeError": "KeyError", "TypeError": "ValueError",
    "ValueError": "TypeError", "LookupError": "AttributeError", "OSError": "ValueError", "Exception": "ValueError",
    "UnicodeDecodeError": "UnicodeEncodeError", "UnicodeEncodeError": "UnicodeDecodeError",
    "StopIteration": "IndexError", "ZeroDivisionError": "OverflowError", "OverflowError": "ZeroDivisionError",
    "NotImplementedError": "TypeError", "RuntimeError": "ValueError", "ImportError": "AttributeError",
    "ModuleNotFoundError": "AttributeError", "FileNotFoundError": "PermissionError", "BaseException": "ValueError",
}  # fmt: skip
"""Built-in exceptions, and the one that is taken by mistake."""


@dataclass(frozen=True)
class Knobs(RuleKnobs):
    """Which mistakes are made, and what the workspace shows of the tests."""

    kind: Literal["all", "unwrapped", "narrowed", "widened", "swallowed", "type", "dropped_clause", "dropped_with"] = (
        "all"
    )
    """The only kind of mistake to make; ``all`` takes each kind in turn."""


def _try(code: ModuleCode, node: ast.Try) -> Iterator[Site]:
    yield from code.unwrapped("unwrapped", node, node.body, node.orelse, node.finalbody)
    if node.finalbody:
        yield from (
            code.unwrapped("dropped_clause", node, node.body)
            if not node.handlers
            else _cut(
                code, node, node.handlers[-1] if not node.orelse else node.orelse[-1], node.finalbody[-1], "finally"
            )
        )
    for handler in node.handlers if len(node.handlers) > 1 else ():
        span = code.lines_span(handler.body[-1])
        start = code.source.rfind(b"\n", 0, code.span(handler)[0]) + 1
        if span is not None:
            yield from code.spliced("dropped_clause", (start, span[1]), b"", handler.body[0])


def _cut(code: ModuleCode, node: ast.Try, last: ast.AST, end: ast.stmt, word: str) -> Iterator[Site]:
    """Yield the loss of the clause ``word`` between the node ``last`` and the statement ``end``."""
    before = last.body[-1] if isinstance(last, ast.ExceptHandler) else last
    first = code.lines_span(before) if isinstance(before, ast.stmt) else None
    final = code.lines_span(end)
    if first is not None and final is not None and word.encode() in code.source[first[1] : final[0]]:
        yield from code.spliced("dropped_clause", (first[1], final[1]), b"", node.finalbody[0])


def _handler(code: ModuleCode, node: ast.ExceptHandler) -> Iterator[Site]:
    types, body = node.type, node.body
    tried: list[ast.stmt] = code.parents[node].body  # type: ignore[attr-defined]
    if isinstance(types, ast.Tuple) and len(types.elts) > 1:
        for item in types.elts:
            others = [code.text(other) for other in types.elts if other is not item]
            text = others[0] if len(others) == 1 else b"(" + b", ".join(others) + b")"
            yield from code.spliced("narrowed", code.span(types), text, body[0])
    elif isinstance(types, ast.Name) and types.id in _SIBLINGS:
        yield from code.spliced("narrowed", code.span(types), _SIBLINGS[types.id].encode(), body[0])
    raises = any(isinstance(item, ast.Raise) for part in tried for item in ast.walk(part))
    if isinstance(types, ast.Name | ast.Attribute | ast.Tuple) and raises and code.text(types) != b"Exception":
        yield from code.spliced("widened", code.span(types), b"Exception", tried[0])
    if isinstance(body[-1], ast.Raise):
        yield from code.removed("swallowed", body[-1])


def _raise(code: ModuleCode, node: ast.Raise) -> Iterator[Site]:
    name = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if isinstance(name, ast.Name) and name.id in _SIBLINGS:
        yield from code.spliced("type", code.span(name), _SIBLINGS[name.id].encode(), node)
    elif isinstance(name, ast.Name) and name.id[:1].isupper() and _takes_text(node.exc):
        other = b"ValueError" if name.id != "ValueError" else b"TypeError"
        yield from code.spliced("type", code.span(name), other, node)


def _takes_text(error: ast.expr | None) -> bool:
    """Return whether an exception is made from at most one argument, as a built-in one would be."""
    return not isinstance(error, ast.Call) or (len(error.args) <= 1 and not error.keywords)


def _with(code: ModuleCode, node: ast.With) -> Iterator[Site]:
    if len(node.items) > 1 or node.items[0].optional_vars is not None:
        return
    if not is_lock(node.items[0].context_expr):  # see bug_concurrency
        yield from code.unwrapped("dropped_with", node, node.body)


class ExceptionBug(RuleGenerator):
    """Let an error escape, catch too much, swallow it or raise a wrong type in tested code."""

    name = "bug_exception"
    version = "4"
    knobs = Knobs
    needs = "try, with or raise"
    rules = {
        ast.Try: (_try,),
        ast.ExceptHandler: (_handler,),
        ast.Raise: (_raise,),
        ast.With: (_with,),
    }
