"""Functions and variables that are taken for others by mistake."""

from __future__ import annotations

import ast
from difflib import SequenceMatcher

from .module_code import Function

SIBLINGS = {
    "strip": "lstrip", "lstrip": "strip", "rstrip": "strip", "find": "rfind", "rfind": "find", "index": "rindex",
    "rindex": "index", "partition": "rpartition", "rpartition": "partition", "startswith": "endswith",
    "endswith": "startswith", "lower": "upper", "upper": "lower", "append": "extend", "extend": "append",
    "appendleft": "append", "popleft": "pop", "ljust": "rjust", "rjust": "ljust", "isdigit": "isalnum",
    "isalpha": "isalnum", "title": "capitalize", "capitalize": "title", "keys": "values", "values": "keys",
    "items": "keys", "union": "intersection", "intersection": "union", "difference": "intersection",
    "issubset": "issuperset", "issuperset": "issubset", "match": "search", "search": "match", "fullmatch": "match",
    "group": "groups", "min": "max", "max": "min", "any": "all", "all": "any", "ceil": "floor", "floor": "ceil",
    "bisect_left": "bisect_right", "bisect_right": "bisect_left", "setdefault": "get", "add": "discard",
    "sorted": "list",
}  # fmt: skip
"""Functions and methods, and the one that is taken by mistake."""
OPTIONAL = {
    "get": 2, "pop": 2, "split": 2, "rsplit": 2, "round": 2, "int": 2, "getattr": 3, "sum": 2, "enumerate": 2,
    "next": 2, "replace": 3, "find": 2, "index": 2, "startswith": 2, "strip": 1, "lstrip": 1, "rstrip": 1,
    "ljust": 2, "rjust": 2, "center": 2, "setdefault": 2, "sub": 4, "isoformat": 1,
}  # fmt: skip
"""Functions whose last argument may be left out, by the number of arguments with it."""


def bound_before(function: Function, line: int) -> list[str]:
    """Return the parameters and the variables that were surely bound before a line, without ``self`` and ``cls``."""
    args = function.args
    names = [item.arg for item in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    for statement in function.body:
        if (statement.end_lineno or line) < line and isinstance(statement, ast.Assign):
            names += [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return [name for name in dict.fromkeys(names) if name not in ("self", "cls") and not name.startswith("__")]


def likeness(first: str, second: str) -> float:
    """Return how much alike two names are, from 0 to 1."""
    return SequenceMatcher(None, first, second).ratio()
