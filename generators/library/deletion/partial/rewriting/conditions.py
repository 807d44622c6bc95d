"""Conditions of the source in words, for statements that have to say when something happens."""

from __future__ import annotations

import ast

from ...removal.source_file import FUNCTIONS, SourceFile

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "is less than",
    ast.LtE: "is at most",
    ast.Gt: "is greater than",
    ast.GtE: "is at least",
    ast.Eq: "equals",
    ast.NotEq: "differs from",
    ast.In: "is in",
    ast.NotIn: "is not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
_OPPOSITES: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.GtE(),
    ast.LtE: ast.Gt(),
    ast.Gt: ast.LtE(),
    ast.GtE: ast.Lt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
}


def in_words(test: ast.expr, *, negated: bool = False) -> str:
    """Return when a condition holds, or with ``negated`` when it does not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return in_words(test.operand, negated=not negated)
    if isinstance(test, ast.BoolOp):
        word = " and " if isinstance(test.op, ast.And) != negated else " or "
        return word.join(_part(item, negated) for item in test.values)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        operator = _OPPOSITES[type(test.ops[0])] if negated else test.ops[0]
        return f"{_code(test.left)} {_COMPARISONS[type(operator)]} {_code(test.comparators[0])}"
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and not test.keywords:
        if test.func.id == "isinstance" and len(test.args) == 2:
            return f"{_code(test.args[0])} is {'not ' if negated else ''}an instance of {_code(test.args[1])}"
        if test.func.id == "callable" and len(test.args) == 1:
            return f"{_code(test.args[0])} is {'not ' if negated else ''}callable"
    return f"{_code(test)} is {'falsy' if negated else 'truthy'}"


def _part(test: ast.expr, negated: bool) -> str:
    text = in_words(test, negated=negated)
    return f"({text})" if isinstance(test, ast.BoolOp) else text


def _code(node: ast.expr) -> str:
    text = ast.unparse(node)
    return f"``{text}``" if "`" in text else f"`{text}`"


def circumstances(file: SourceFile, node: ast.AST) -> list[str]:
    """Return the conditions of the ``if`` statements around a node, innermost first, up to its function."""
    conditions: list[str] = []
    child = node
    for parent in file.ancestors(node):
        if isinstance(parent, (*FUNCTIONS, ast.Lambda)):
            break
        if isinstance(parent, ast.If) and child is not parent.test:
            conditions.append(in_words(parent.test, negated=child in parent.orelse))
        child = parent
    return conditions
