"""Versions of a function that do less than the function, as partial solutions do.

One thing is left out (a branch, a step, an element of a table), or one condition is looser than it should be.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from ....python.mutants import Mutant, mutable_nodes
from ....python.source import SyntaxSpans

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Text = Callable[[ast.AST], bytes]
_Version = tuple[str, ast.AST, bytes]
"""The kind of a version, the node that it replaces and the new text."""
_FIRST_ALONE = {"replace": (2, b"1"), "split": (1, b"1"), "sub": (3, b"1")}
"""Methods that change every place, by name: their number of arguments, and the argument that limits them to one."""


def partial_versions(source: SyntaxSpans, function: _Function) -> Iterator[Mutant]:
    """Yield the versions of a function of ``source``, each a whole file."""
    arguments = [item.arg for item in [*function.args.posonlyargs, *function.args.args] if item.arg != "cls"]
    argument = next((name for name in arguments if name != "self"), arguments[0] if arguments else "")
    defaults = _defaults(source.text, function.args)
    docstring = ast.get_docstring(function, clean=False)
    for node in (node for statement in function.body for node in mutable_nodes(statement)):
        is_docstring = isinstance(node, ast.Constant) and node.value == docstring
        if is_docstring:
            continue
        for versions in (_omissions(source.text, node, argument), _looser(source.text, node, defaults)):
            for kind, replaced, text in versions:
                yield Mutant(source.source, kind, *source.span(replaced), text)


def _defaults(text: _Text, arguments: ast.arguments) -> dict[str, bytes]:
    """Return the optional parameters with the source of their defaults."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)]
    pairs += [(item, value) for item, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    return {item.arg: b"(" + text(value) + b")" for item, value in pairs}


def _omissions(text: _Text, node: ast.AST, argument: str) -> Iterator[_Version]:
    """Yield versions without a branch, an operand, a text or a step."""
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "forced condition", node.test, b"False"
        if not isinstance(node, ast.While):
            yield "forced condition", node.test, b"True"
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield "dropped condition", node, b"(" + text(value) + b")"
        word = b" and " if isinstance(node.op, ast.And) else b" or "
        for value in node.values if len(node.values) > 2 else ():
            others = [b"(" + text(other) + b")" for other in node.values if other is not value]
            yield "dropped condition", node, b"(" + word.join(others) + b")"
    elif isinstance(node, ast.Return) and node.value is not None and argument:
        yield "returned argument", node.value, argument.encode()
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield "text", node, b"''" if node.value else b"'x'"
    elif isinstance(node, ast.BinOp):
        yield "dropped operand", node, b"(" + text(node.left) + b")"
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.expr):
            yield "dropped call", node, b"(" + text(node.func.value) + b")"
        if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred):
            yield "dropped call", node, b"(" + text(node.args[0]) + b")"


def _looser(text: _Text, node: ast.AST, defaults: Mapping[str, bytes]) -> Iterator[_Version]:
    """Yield versions that compare less, ignore an option, lack an element, or change only the first place of many."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        sides = (node.left, node.comparators[0])
        if not any(isinstance(side, ast.Constant) and not isinstance(side.value, str) for side in sides):
            sign = b" == " if isinstance(node.ops[0], ast.Eq) else b" != "
            for before, after in ((b"str(", b").lower()"), (b"len(str(", b"))"), (b"str(", b")[:1]")):
                yield "loose comparison", node, b"(" + sign.join(before + text(side) + after for side in sides) + b")"
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in defaults:
        yield "ignored option", node, defaults[node.id]
    elif isinstance(node, ast.List | ast.Tuple | ast.Set) and len(node.elts) > 1:
        if all(isinstance(item, ast.Constant) for item in node.elts):
            for item in (node.elts[0], node.elts[-1]):
                yield "dropped element", node, _without(text, node, item)
    elif isinstance(node, ast.For) and not isinstance(node.iter, ast.Constant):
        yield "first alone", node.iter, b"list(" + text(node.iter) + b")[:1]"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
        most, limit = _FIRST_ALONE.get(node.func.attr, (0, b""))
        if len(node.args) == most and not any(isinstance(item, ast.Starred) for item in node.args):
            arguments = b", ".join([*map(text, node.args), limit])
            yield "first alone", node, b"(" + text(node.func) + b"(" + arguments + b"))"


def _without(text: _Text, node: ast.List | ast.Tuple | ast.Set, dropped: ast.expr) -> bytes:
    """Return the source of a list, tuple or set without one of its elements."""
    opening, closing = {ast.List: (b"[", b"]"), ast.Tuple: (b"(", b")"), ast.Set: (b"{", b"}")}[type(node)]
    return opening + b"".join(text(item) + b", " for item in node.elts if item is not dropped) + closing
