"""Rewriting of a file in which a name always has one value: it is replaced, and what cannot run any more is deleted.

The result behaves as the file did for that value. A place where this cannot be shown raises Rejected.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from ......errors import Rejected
from .....python.source import Edit, apply_edits, compile_error, line_span
from ...removal.source_file import SourceFile, block
from .blocks import is_elif, unwrapped, without_branch, without_statements
from .constant_values import FixedReads, Symbol

MAX_ROUNDS = 60
_LOOSE = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr)
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def with_fixed_name(
    path: str, dotted: str, source: bytes, reads: Callable[[SourceFile], list[ast.expr]], value: Any, text: bytes
) -> bytes:
    """Return ``source`` with the nodes that ``reads`` finds replaced by ``text``, the source of ``value``.

    ``reads`` is called again after every edit. Raises Rejected when a place cannot be rewritten exactly.
    """
    for _ in range(MAX_ROUNDS):
        file = SourceFile(path, source, dotted)
        nodes = reads(file)
        if not nodes:
            return source
        edits = _step(file, FixedReads(frozenset(nodes), value), nodes, text)
        source = apply_edits(source, edits)
        problem = compile_error(path, source)
        if problem:
            raise Rejected("v0_not_exact", f"{path}: {problem}")
    raise Rejected("v0_not_exact", f"{path}: more than {MAX_ROUNDS} places")


def _step(file: SourceFile, fixed: FixedReads, nodes: list[ast.expr], text: bytes) -> list[Edit]:
    """Return the edits of one place: code that cannot run goes first, since what is in it needs no value."""
    tops = [_widest(file, fixed, node) for node in nodes]
    for top in tops:
        edits = _branch(file, fixed, top)
        if edits is not None:
            return edits
    return [_replacement(file, fixed, tops[0], nodes[0], text)]


def _widest(file: SourceFile, fixed: FixedReads, node: ast.expr) -> ast.expr:
    """Return the largest expression around a read whose value, or whose truth in a condition, is known."""
    top = node
    for parent in file.ancestors(node):
        if not isinstance(parent, ast.BoolOp | ast.UnaryOp | ast.Compare | ast.Call | ast.Tuple | ast.List | ast.Set):
            break
        decided = fixed.truth(parent) is not None if _is_condition(file, parent) else _is_plain(fixed.evaluate(parent))
        if decided and not isinstance(parent, ast.Tuple | ast.List | ast.Set):
            top = parent
    return top


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | bytes)


def _is_condition(file: SourceFile, node: ast.expr) -> bool:
    """Return whether only the truth of an expression matters."""
    child: ast.AST = node
    for parent in file.ancestors(node):
        if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert):
            return child is parent.test
        if isinstance(parent, ast.comprehension):
            return child in parent.ifs
        if not (isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not))):
            return False
        child = parent
    return False


def _branch(file: SourceFile, fixed: FixedReads, top: ast.expr) -> list[Edit] | None:
    """Return the edits that drop what cannot run because of a known value; None when it decides about nothing."""
    parent = file.parents[top]
    truth = fixed.truth(top)
    if isinstance(parent, ast.For) and top is parent.iter and fixed.evaluate(top) == () and not parent.orelse:
        return without_statements(file, [parent])
    if truth is None:
        return None
    if isinstance(parent, ast.If) and top is parent.test:
        return _chosen_block(file, parent, truth)
    if isinstance(parent, ast.While) and top is parent.test and not truth and not parent.orelse:
        return without_statements(file, [parent])
    if isinstance(parent, ast.Assert) and top is parent.test and truth:
        return without_statements(file, [parent])
    if isinstance(parent, ast.IfExp) and top is parent.test:
        return [(file.span(parent), _grouped(file, parent.body if truth else parent.orelse, ()))]
    if isinstance(parent, ast.BoolOp):
        neutral = truth == isinstance(parent.op, ast.And)
        if neutral and (top is not parent.values[-1] or _is_condition(file, parent)):
            others = [item for item in parent.values if item is not top]
            word = b" and " if isinstance(parent.op, ast.And) else b" or "
            loose = _LOOSE if len(others) > 1 or isinstance(file.parents[parent], ast.expr) else ()
            return [(file.span(parent), word.join(_grouped(file, item, loose) for item in others))]
    return None


def _grouped(file: SourceFile, node: ast.expr, loose: tuple[type[ast.expr], ...]) -> bytes:
    """Return the source of an expression, in parentheses where its new place or its lines need them."""
    text = file.text(node).encode()
    return b"(" + text + b")" if isinstance(node, loose) or b"\n" in text else text


def _chosen_block(file: SourceFile, node: ast.If, truth: bool) -> list[Edit]:
    """Return the edits that leave the branch of an ``if`` that always runs."""
    if not truth:
        if not node.orelse:
            return without_branch(file, node)
        edits, chosen = without_branch(file, node), node.orelse
    else:
        chosen = node.body
        end = line_span(file.source, file.span(node.body[-1]))[1]
        remaining: list[Edit] = [((end, line_span(file.source, file.span(node))[1]), b"")] if node.orelse else []
        if is_elif(file, node):
            colon = file.source.index(b":", file.span(node.test)[1])
            return [((file.span(node)[0], colon), b"else"), *remaining]
        if node.body[0].lineno == node.lineno:
            edits = [((file.span(node)[0], file.span(node.body[0])[0]), b""), *remaining]
        else:
            edits = unwrapped(file, node, [node.body])
    if isinstance(chosen[-1], _ENDS) and not is_elif(file, node):
        siblings = block(file, node)
        edits += without_statements(file, siblings[siblings.index(node) + 1 :])
    return edits


def _replacement(file: SourceFile, fixed: FixedReads, top: ast.expr, read: ast.expr, text: bytes) -> Edit:
    """Return the edit that writes the value in the place of an expression. Raises Rejected."""
    where = f"{file.path}:{top.lineno}"
    if any(isinstance(item, ast.JoinedStr) for item in file.ancestors(top)):
        raise Rejected("v0_not_exact", f"{where} formats it")
    parent = file.parents[top]
    is_object = isinstance(parent, ast.Attribute | ast.Subscript | ast.Starred) and top is parent.value
    is_called = isinstance(parent, ast.Call) and top is parent.func
    if (is_object or is_called) and not isinstance(fixed.value, Symbol | str | tuple):
        raise Rejected("v0_not_exact", f"{where} uses it as an object")
    new = text if top is read else repr(fixed.evaluate(top)).encode()
    tight = isinstance(parent, ast.BinOp | ast.UnaryOp) or is_object
    return file.span(top), b"(" + new + b")" if tight and not re.fullmatch(rb"\w+|'[^']*'|\"[^\"]*\"", new) else new
