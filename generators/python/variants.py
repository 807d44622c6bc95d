"""Variants: the same code written otherwise, on which every honest test still passes.

A module is laid out again without its comments. Inside the given lines, functions get other local names, swapped
branches under a negated condition, and statements that never run, with mistakes in them; so neither the text, nor the
syntax tree, nor the counts of its parts, nor the bytecode says whether the code is right.
"""

from __future__ import annotations

import ast
import copy
import random
from collections import Counter
from collections.abc import Collection

from .source import compile_error, parse

Function = ast.FunctionDef | ast.AsyncFunctionDef
_WORDS = ("item", "part", "entry", "state", "value", "piece", "field", "chunk", "token", "level")
_OPAQUE = frozenset({"locals", "vars", "eval", "exec", "dir", "globals", "_getframe", "currentframe"})
"""Names whose use shows that a function may look at its own variables or frame."""
_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


def variant(path: str, source: bytes, lines: Collection[int], draw: random.Random, other: bytes | None = None) -> bytes:
    """Return a variant of a module; functions that start or end within ``lines`` (1-based) are changed most.

    With ``other``, the statements that never run are those of another version of the module: so the text of a wrong
    version is in a right one, too. Raises ValueError for a module that is not valid Python.
    """
    try:
        module = parse(source)
        others = _functions(parse(other)) if other is not None else {}
    except SyntaxError as error:
        raise ValueError(f"{path} is not valid Python: {error}") from error
    for key, node in _functions(module).items():
        if lines and not {node.lineno, node.end_lineno or node.lineno}.isdisjoint(lines):
            _change(node, draw, others.get(key))
    result = (ast.unparse(ast.fix_missing_locations(module)) + "\n").encode()
    if problem := compile_error(path, result):
        raise ValueError(f"the variant of {path} is not valid Python: {problem}")
    return result


def _functions(module: ast.Module) -> dict[tuple[str, int], Function]:
    """Return the functions by their name and their number among those of the same name."""
    result: dict[tuple[str, int], Function] = {}
    numbers: Counter[str] = Counter()
    for node in ast.walk(module):
        if isinstance(node, Function):
            result[node.name, numbers[node.name]] = node
            numbers[node.name] += 1
    return result


def _change(function: Function, draw: random.Random, other: Function | None) -> None:
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    if names & _OPAQUE:
        return
    dead = _copies(other or function)
    _swap_branches(function, draw)
    if dead:
        _add_dead_code(function, dead if other else _with_mistakes(draw.choice(dead), draw), names, draw)
    _rename_locals(function, names, draw)


def _swap_branches(function: Function, draw: random.Random) -> None:
    for node in ast.walk(function):
        is_chain = isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
        if isinstance(node, ast.If) and node.orelse and not is_chain and draw.random() < 0.7:
            node.test = ast.UnaryOp(ast.Not(), node.test)
            node.body, node.orelse = node.orelse, node.body


def _copies(function: Function) -> list[ast.stmt]:
    """Return copies of the statements that may stand twice in a function, without its docstring."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom)
    if any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(function)):
        return []
    body = function.body[_has_docstring(function) :]
    return copy.deepcopy([item for item in body if not any(isinstance(node, inner) for node in ast.walk(item))])


def _has_docstring(function: Function) -> bool:
    return ast.get_docstring(function, clean=False) is not None


def _with_mistakes(statement: ast.stmt, draw: random.Random) -> list[ast.stmt]:
    """Return a statement with other comparisons and numbers."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Compare):
            node.ops = [_OTHER[type(operation)]() for operation in node.ops]
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            node.value += draw.randrange(1, 4)
    return [statement]


def _add_dead_code(function: Function, dead: list[ast.stmt], names: set[str], draw: random.Random) -> None:
    """Put statements below a condition that is never true."""
    flag = _new_name(names, draw)
    start = ast.Assign([ast.Name(flag, ast.Store())], ast.Constant(None))
    never = ast.If(ast.Compare(ast.Name(flag, ast.Load()), [ast.IsNot()], [ast.Constant(None)]), dead, [])
    at = int(_has_docstring(function))
    function.body[at:at] = [start, never]


def _rename_locals(function: Function, names: set[str], draw: random.Random) -> None:
    """Give plain local variables other names, in a function without scopes that could see or hide them."""
    nodes = list(ast.walk(function))
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    if any(isinstance(node, scopes) for node in nodes if node is not function):
        return
    fixed = {node.arg for node in nodes if isinstance(node, ast.arg)}
    fixed |= {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    fixed |= {
        node.name for node in nodes if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name
    }
    fixed |= {node.rest for node in nodes if isinstance(node, ast.MatchMapping) and node.rest}
    fixed |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    renamed: dict[str, str] = {}
    for name in dict.fromkeys(stored):
        if name not in fixed and not name.startswith("__"):
            renamed[name] = _new_name(names, draw)
    for node in nodes:
        if isinstance(node, ast.Name):
            node.id = renamed.get(node.id, node.id)


def _new_name(names: set[str], draw: random.Random) -> str:
    while (name := f"{draw.choice(_WORDS)}_{draw.randrange(100)}") in names:
        pass
    names.add(name)
    return name
