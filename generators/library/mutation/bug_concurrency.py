"""The generator ``bug_concurrency``: a lost lock, await or join, where tests see it every time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .family import Site
from .places.module_code import ModuleCode, called_name, is_lock
from .rules import RuleGenerator, RuleKnobs

_WAITING = {"wait_for", "shield"}
_JOINED = ("thread", "process", "worker", "pool", "task", "queue", "executor", "timer", "t", "p")


@dataclass(frozen=True)
class Knobs(RuleKnobs):
    """Which mistakes are made, and what the workspace shows of the tests."""

    kind: Literal["all", "lock", "outside_lock", "check_then_act", "await", "gather", "join", "async_with", "limit"] = (
        "all"
    )
    """The only kind of mistake to make; ``all`` takes each kind in turn."""


def _with(code: ModuleCode, node: ast.With | ast.AsyncWith) -> Iterator[Site]:
    plain = len(node.items) == 1 and node.items[0].optional_vars is None
    if not plain:
        return
    if not is_lock(node.items[0].context_expr):
        if isinstance(node, ast.AsyncWith):
            yield from code.unwrapped("async_with", node, node.body)
        return
    yield from code.unwrapped("lock", node, node.body)
    first, last = code.lines_span(node.body[0]), code.lines_span(node.body[-1])
    if len(node.body) > 1 and last is not None:
        moved = code.dedented(node.body[-1:], code.indentation(node))
        if moved is not None:
            yield from code.spliced("outside_lock", last, moved, node)
    inner = node.body[0]
    whole = code.lines_span(node)
    if len(node.body) > 1 or not isinstance(inner, ast.If) or inner.orelse or first is None or whole is None:
        return
    body = code.lines_span(inner.body[0])
    if body is not None and inner.lineno == (inner.test.end_lineno or 0) and node.lineno + 1 == inner.lineno:
        head, test = code.source[whole[0] : first[0]], code.source[first[0] : body[0]]
        outside, inside = code.indentation(node), code.indentation(inner)
        swapped = code.reindented((first[0], body[0]), inside, outside)
        swapped += code.reindented((whole[0], first[0]), outside, inside)
        if b"\n" in test and head.count(b"\n") == 1:
            yield from code.spliced("check_then_act", (whole[0], body[0]), swapped, node)


def _await(code: ModuleCode, node: ast.Await) -> Iterator[Site]:
    yield from code.replaced("await", node, code.text(node.value))


def _call(code: ModuleCode, node: ast.Call) -> Iterator[Site]:
    name = called_name(node)
    if name == "gather" and len(node.args) > 1 and not any(isinstance(item, ast.Starred) for item in node.args):
        start, end = code.span(node.args[0])[0], code.span(node.args[1])[1]
        text = code.text(node.args[1]) + b", " + code.text(node.args[0])
        yield from code.spliced("gather", (start, end), text, node)
    plain = node.args and not isinstance(node.args[0], ast.Lambda | ast.Starred)
    if name in _WAITING and plain and isinstance(code.parents[node], ast.Await):
        yield from code.replaced("limit", node, code.text(node.args[0]))


def _expression(code: ModuleCode, node: ast.Expr) -> Iterator[Site]:
    call = node.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return
    owner = code.text(call.func.value).rsplit(b".", 1)[-1].decode().strip("_").rstrip("s").lower()
    joined = call.func.attr == "join" and (owner.endswith(_JOINED[:-2]) or owner in _JOINED)
    if joined or (call.func.attr in ("acquire", "release") and is_lock(call.func.value)):
        yield from code.removed("join" if joined else "lock", node)


class ConcurrencyBug(RuleGenerator):
    """Lose a lock, an await or a join in tested code, or move work out of a lock."""

    name = "bug_concurrency"
    version = "4"
    knobs = Knobs
    needs = "lock, await, join or other code of threads and tasks"
    rules = {
        ast.With: (_with,),
        ast.AsyncWith: (_with,),
        ast.Await: (_await,),
        ast.Call: (_call,),
        ast.Expr: (_expression,),
    }
