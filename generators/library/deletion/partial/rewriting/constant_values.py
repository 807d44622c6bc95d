"""The value of an expression when one name in it is fixed, as far as the source says."""

from __future__ import annotations

import ast
import operator
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

UNKNOWN: Any = object()
"""Stands for a value that is not known."""

_COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "bytes": bytes, "list": list, "dict": dict}
_TYPES |= {"tuple": tuple, "set": set}


@dataclass(frozen=True)
class Symbol:
    """The value of a name of the module, which is equal to itself; nothing else is known about it."""

    name: str


def value_of(node: ast.expr) -> Any:
    """Return the value of a default: a constant, a tuple of constants, or the Symbol of a name; else UNKNOWN."""
    if isinstance(node, ast.Name):
        return Symbol(node.id)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return UNKNOWN
    return UNKNOWN if isinstance(value, list | dict | set) else value


@dataclass(frozen=True)
class FixedReads:
    """The reads of a name that always have one value."""

    reads: Collection[ast.expr]  # the nodes
    value: Any  # a constant or a Symbol

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of an expression; UNKNOWN where the source alone does not say it."""
        if node in self.reads:
            return self.value
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            is_symbol = isinstance(self.value, Symbol) and node.id == self.value.name
            return self.value if is_symbol else UNKNOWN
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            truth = self.truth(node.operand)
            return UNKNOWN if truth is None else not truth
        if isinstance(node, ast.BoolOp):
            return self._boolean(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._comparison(node)
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            values = [self.evaluate(item) for item in node.elts]
            return UNKNOWN if any(item is UNKNOWN for item in values) else tuple(values)
        if isinstance(node, ast.Call):
            return self._call(node)
        return UNKNOWN

    def truth(self, node: ast.expr) -> bool | None:
        """Return whether a condition holds; None when it is not known."""
        if isinstance(node, ast.BoolOp) and not _has_effects(node):
            decisive = isinstance(node.op, ast.Or)
            truths = [self.truth(item) for item in node.values]
            if decisive in truths:
                return decisive
        value = self.evaluate(node)
        return None if value is UNKNOWN or isinstance(value, Symbol) else bool(value)

    def _boolean(self, node: ast.BoolOp) -> Any:
        value = UNKNOWN
        for item in node.values:
            value, truth = self.evaluate(item), self.truth(item)
            if truth is None or truth == isinstance(node.op, ast.Or):
                break
        return value

    def _comparison(self, node: ast.Compare) -> Any:
        first, second = self.evaluate(node.left), self.evaluate(node.comparators[0])
        if first is UNKNOWN or second is UNKNOWN:
            return UNKNOWN
        if isinstance(first, Symbol) or isinstance(second, Symbol):
            equal = first == second  # a Symbol may still be equal to another value
            identity = {ast.Is: True, ast.IsNot: False, ast.Eq: True, ast.NotEq: False}
            return identity.get(type(node.ops[0]), UNKNOWN) if equal else UNKNOWN
        try:
            return _COMPARISONS[type(node.ops[0])](first, second)
        except TypeError:
            return UNKNOWN

    def _call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name) or node.keywords or not node.args:
            return UNKNOWN
        value = self.evaluate(node.args[0])
        if value is UNKNOWN or isinstance(value, Symbol):
            return UNKNOWN
        if len(node.args) == 1 and node.func.id == "bool":
            return bool(value)
        if len(node.args) == 1 and node.func.id == "callable":
            return callable(value)
        if len(node.args) == 1 and node.func.id == "len" and isinstance(value, str | bytes | tuple):
            return len(value)
        if node.func.id == "isinstance" and len(node.args) == 2:
            kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            types = [_TYPES.get(ast.unparse(item)) for item in kinds]
            if value is None or None not in types:  # nothing but NoneType has the instance None
                return value is not None and isinstance(value, tuple(item for item in types if item))
        return UNKNOWN


def _has_effects(node: ast.AST) -> bool:
    """Return whether an expression may do more than give a value."""
    return any(isinstance(item, ast.Call | ast.Await | ast.NamedExpr | ast.Yield) for item in ast.walk(node))
