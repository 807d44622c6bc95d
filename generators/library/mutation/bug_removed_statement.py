"""The generator ``bug_removed_statement``: a statement that is missing in code that tests run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from .family import Site
from .places.module_code import ModuleCode, is_super
from .rules import RuleGenerator, RuleKnobs

_STATES = ast.Attribute | ast.Subscript
_LEAVES = ast.Raise | ast.Return | ast.Continue


@dataclass(frozen=True)
class Knobs(RuleKnobs):
    """Which statements are removed, and what the workspace shows of the tests."""

    kind: Literal["all", "assignment", "update", "rebinding", "guard", "raise", "deletion", "yield", "call"] = "all"
    """The only kind of statement to remove; ``all`` takes each kind in turn."""


def _assignment(code: ModuleCode, node: ast.Assign | ast.AnnAssign) -> Iterator[Site]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if all(isinstance(target, _STATES) for target in targets) and not _is_only_definition(code, node, targets):
        yield from code.removed("assignment", node)
    target = targets[0]
    if len(targets) == 1 and isinstance(target, ast.Name) and node.value is not None and code.function(node):
        read = {item.id for item in ast.walk(node.value) if isinstance(item, ast.Name)}
        if target.id in read:  # ``name = f(name)``: without it, the name keeps its former value
            yield from code.removed("rebinding", node)


def _is_only_definition(code: ModuleCode, node: ast.stmt, targets: Sequence[ast.expr]) -> bool:
    """Return whether an attribute would not exist at all without the assignment, which a traceback would say."""
    owner = code.owner(node)
    names = {target.attr for target in targets if isinstance(target, ast.Attribute)}
    if owner is None or not names:
        return False
    others = [
        item.attr if isinstance(item, ast.Attribute) else item.id
        for item in ast.walk(owner)
        if isinstance(item, ast.Attribute | ast.Name) and isinstance(item.ctx, ast.Store) and item not in targets
    ]
    return not names <= set(others)


def _update(code: ModuleCode, node: ast.AugAssign) -> Iterator[Site]:
    if not any(isinstance(item, ast.While) for item in code.around(node)):
        yield from code.removed("update", node)


def _guard(code: ModuleCode, node: ast.If) -> Iterator[Site]:
    loops = isinstance(node.body[-1], ast.Continue) and any(isinstance(item, ast.While) for item in code.around(node))
    if len(node.body) > 1 or not isinstance(node.body[0], _LEAVES) or node.orelse or loops or code.is_elif(node):
        return
    if code.block(node)[-1] is not node or isinstance(node.body[0], ast.Raise):
        yield from code.removed("guard", node)


def _raise(code: ModuleCode, node: ast.Raise) -> Iterator[Site]:
    parent = code.parents[node]
    is_guard = isinstance(parent, ast.If) and len(parent.body) == 1 and not parent.orelse and not code.is_elif(parent)
    function = code.function(node)
    is_lookup = function is not None and function.name.startswith("__")  # see bug_protocol
    if not is_guard and not is_lookup and not isinstance(parent, ast.ExceptHandler):  # see _guard, bug_exception
        yield from code.removed("raise", node)


def _deletion(code: ModuleCode, node: ast.Delete) -> Iterator[Site]:
    if all(isinstance(target, _STATES) for target in node.targets):
        yield from code.removed("deletion", node)


def _expression(code: ModuleCode, node: ast.Expr) -> Iterator[Site]:
    value = node.value.value if isinstance(node.value, ast.Await) else node.value
    function = code.function(node)
    if isinstance(value, ast.Yield | ast.YieldFrom) and function is not None:
        yields = [item for item in ast.walk(function) if isinstance(item, ast.Yield | ast.YieldFrom)]
        if len(yields) > 1:  # without its only ``yield``, a function does not iterate
            yield from code.removed("yield", node)
    if isinstance(value, ast.Call) and function is not None:
        is_join = isinstance(value.func, ast.Attribute) and value.func.attr == "join"  # see bug_concurrency
        in_while = any(isinstance(item, ast.While) for item in code.around(node))
        if not in_while and not is_join and not is_super(value):
            yield from code.removed("call", node)


class RemovedStatementBug(RuleGenerator):
    """Remove one statement from tested code: an assignment, a guard, a call, a yield, a raise or a deletion."""

    name = "bug_removed_statement"
    version = "4"
    knobs = Knobs
    needs = "assignment, guard, call, yield, raise or deletion"
    rules = {
        ast.Assign: (_assignment,),
        ast.AnnAssign: (_assignment,),
        ast.AugAssign: (_update,),
        ast.If: (_guard,),
        ast.Raise: (_raise,),
        ast.Delete: (_deletion,),
        ast.Expr: (_expression,),
    }
