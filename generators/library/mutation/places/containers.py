"""Places that make an empty list, dict or set."""

from __future__ import annotations

import ast

from .module_code import ModuleCode

_EMPTY = {"list": b"[]", "dict": b"{}", "set": b"set()"}


def made_when_missing(code: ModuleCode, statement: ast.stmt, name: str) -> bytes:
    """Return the empty container that a statement gives to a parameter that is missing; empty for other statements."""
    if isinstance(statement, ast.If) and len(statement.body) == 1 and not statement.orelse:
        test = code.text(statement.test)
        assigned: ast.stmt = statement.body[0]
        if test not in (f"{name} is None".encode(), f"not {name}".encode()) or not isinstance(assigned, ast.Assign):
            return b""
        value = assigned.value
        same = isinstance(assigned.targets[0], ast.Name) and assigned.targets[0].id == name
    elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BoolOp):
        first, value = statement.value.values[0], statement.value.values[-1]
        targets = [item.id for item in statement.targets if isinstance(item, ast.Name)]
        same = (
            isinstance(statement.value.op, ast.Or) and isinstance(first, ast.Name) and targets == [first.id] == [name]
        )
    else:
        return b""
    return empty_container(code, value) if same else b""


def empty_container(code: ModuleCode, value: ast.expr | None) -> bytes:
    """Return the source of an empty list, dict or set; empty for other values."""
    if isinstance(value, ast.List | ast.Dict) and code.text(value) in (b"[]", b"{}"):
        return code.text(value)
    bare = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and not value.args and not value.keywords
    return _EMPTY.get(value.func.id, b"") if bare else b""  # type: ignore[union-attr]
