"""Near misses of a function: versions that are right on most inputs, as those of an author who saw only the tests.

A limit is wrong by one, a text by one character, one end of a text or a list is treated like the other, a comparison is
too wide, or results come in another order.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from ....python.mutants import Mutant, mutable_nodes
from ....python.source import SyntaxSpans

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Text = Callable[[ast.AST], bytes]
_Version = tuple[str, ast.AST, bytes]
_OTHER_METHODS = {
    "strip": ("lstrip", "rstrip"),
    "lstrip": ("strip",),
    "rstrip": ("strip",),
    "find": ("rfind",),
    "rfind": ("find",),
    "index": ("rindex",),
    "split": ("rsplit",),
    "rsplit": ("split",),
    "partition": ("rpartition",),
    "rpartition": ("partition",),
    "match": ("search",),
    "search": ("match",),
    "fullmatch": ("match",),
    "isdigit": ("isalnum",),
    "isalnum": ("isalpha",),
    "isalpha": ("isalnum",),
    "startswith": ("__contains__",),
    "endswith": ("__contains__",),
    "lower": ("casefold",),
    "title": ("capitalize",),
    "append": ("extend",),
    "update": ("setdefault",),
}
_OTHER_FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min", "round": "int", "floor": "ceil"}
_WIDER = {ast.Lt: "!=", ast.Gt: "!=", ast.LtE: "==", ast.GtE: "==", ast.Eq: "<=", ast.NotEq: ">"}


def near_misses(source: SyntaxSpans, function: _Function) -> Iterator[Mutant]:
    """Yield the near misses of a function of ``source``, each a whole file."""
    docstring = ast.get_docstring(function, clean=False)
    for node in (node for statement in function.body for node in mutable_nodes(statement)):
        if isinstance(node, ast.Constant) and node.value == docstring:
            continue
        for kind, replaced, text in _versions(source.text, node):
            yield Mutant(source.source, kind, *source.span(replaced), text)


def _versions(text: _Text, node: ast.AST) -> Iterator[_Version]:
    if isinstance(node, ast.Constant):
        yield from _other_constants(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _WIDER:
        sign = f" {_WIDER[type(node.ops[0])]} ".encode()
        yield "wider comparison", node, b"(" + text(node.left) + sign + text(node.comparators[0]) + b")"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        for name in _OTHER_METHODS.get(node.func.attr, ()):
            called = text(node.func)[: -len(node.func.attr)] + name.encode()
            yield "other end", node.func, called
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OTHER_FUNCTIONS:
        yield "other function", node.func, _OTHER_FUNCTIONS[node.func.id].encode()
    elif isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            if bound is not None:
                yield "missing bound", bound, b"None"
    elif isinstance(node, ast.For):
        yield "other order", node.iter, b"list(" + text(node.iter) + b")[::-1]"
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Call | ast.List | ast.ListComp | ast.Name):
        value = text(node.value)
        yield "other order", node.value, b"(lambda _: _[::-1] if isinstance(_, (list, tuple)) else _)(" + value + b")"


def _other_constants(node: ast.Constant) -> Iterator[_Version]:
    value = node.value
    if type(value) is int and value > 0:
        yield "smaller constant", node, str(value - 1).encode()
    elif isinstance(value, str) and len(value) > 1:
        for other in (value[1:], value[:-1], value.swapcase()):
            yield "near text", node, repr(other).encode()
