"""The places of a file where errors are handled: checks that raise, and ``except`` branches that translate."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ....python.source import Edit, Span, line_span
from ..removal.source_file import SourceFile, block
from .rewriting.blocks import is_elif, unwrapped, without_branch, without_clause, without_statements
from .rewriting.conditions import circumstances, in_words

_CONTROL = {"NotImplementedError", "StopIteration", "StopAsyncIteration", "GeneratorExit", "KeyboardInterrupt"}
"""Exceptions that steer the caller; without them it would run forever or find nothing."""
MAX_SNIPPET = 80


@dataclass(frozen=True)
class ErrorCheck:
    """One check that raises, or one ``except`` branch that raises another exception."""

    kind: Literal["guard", "handler"]
    function: str  # ``name`` or ``Class.name`` of the function around it
    node: ast.stmt | ast.ExceptHandler  # the ``if`` or the ``except`` branch
    raising: ast.Raise  # its last statement

    @property
    def exception(self) -> str:
        """Return the name of the exception, as the source writes it."""
        return _exception(self.raising)

    @property
    def lines(self) -> range:
        """Return the numbers (1-based) of the lines that run when the check raises."""
        return range(self.raising.lineno, (self.raising.end_lineno or self.raising.lineno) + 1)


def error_checks(file: SourceFile) -> Iterator[ErrorCheck]:
    """Yield the checks of the functions of a file, in the order of the source."""
    nodes = [node for node in ast.walk(file.tree) if isinstance(node, ast.If | ast.ExceptHandler)]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        function = file.function(node)
        if function is None:
            continue
        owner = file.owner(function)
        name = f"{owner.name}.{function.name}" if owner else function.name
        if isinstance(node, ast.ExceptHandler):
            raising = _raising(node.body)
            if raising is not None and node.type is not None and _is_removable(file, node):
                yield ErrorCheck("handler", name, node, raising)
            continue
        raising, otherwise = _raising(node.body), _raising(node.orelse)
        if (raising is None) != (otherwise is None):
            yield ErrorCheck("guard", name, node, raising or otherwise)  # type: ignore[arg-type]


def _raising(body: Sequence[ast.stmt]) -> ast.Raise | None:
    """Return the last statement of a block that only raises a new exception, after assignments at most."""
    if not body or not isinstance(body[-1], ast.Raise) or not all(isinstance(item, ast.Assign) for item in body[:-1]):
        return None
    return body[-1] if _exception(body[-1]) else None


def _exception(node: ast.Raise) -> str:
    """Return the name of the class that is raised; empty for a variable or an exception that steers the caller."""
    called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    name = ast.unparse(called) if isinstance(called, ast.Name | ast.Attribute) else ""
    short = name.rsplit(".", 1)[-1]
    return name if re.match(r"_?[A-Z]", short) and short not in _CONTROL else ""


def _is_removable(file: SourceFile, handler: ast.ExceptHandler) -> bool:
    """Return whether a ``try`` without the branch is still a statement, or can be replaced by its body."""
    parent = file.parents[handler]
    return isinstance(parent, ast.Try) and (len(parent.handlers) > 1 or not parent.finalbody)


def removal_edits(file: SourceFile, checks: Sequence[ErrorCheck]) -> list[Edit]:
    """Return the edits that take the checks out of the file."""
    chosen = {check.node for check in checks}
    guards = [check for check in checks if isinstance(check.node, ast.If)]
    edits = without_statements(file, [check.node for check in guards if _is_whole(file, check)])  # type: ignore[misc]
    for check in guards:
        if not _is_whole(file, check):
            edits += _without_branch(file, check.node, check.raising)  # type: ignore[arg-type]
    for attempt in dict.fromkeys(file.parents[node] for node in chosen if isinstance(node, ast.ExceptHandler)):
        assert isinstance(attempt, ast.Try)
        if chosen.issuperset(attempt.handlers) and not attempt.finalbody:
            edits += unwrapped(file, attempt, [attempt.body, *([attempt.orelse] if attempt.orelse else [])])
        else:
            removed = [handler for handler in attempt.handlers if handler in chosen]
            remaining = removed[1:] if chosen.issuperset(attempt.handlers) else removed
            edits += [(line_span(file.source, file.span(handler)), b"") for handler in remaining]
    return edits


def _is_whole(file: SourceFile, check: ErrorCheck) -> bool:
    """Return whether nothing of an ``if`` remains without the branch that raises."""
    return isinstance(check.node, ast.If) and not check.node.orelse and not is_elif(file, check.node)


def _without_branch(file: SourceFile, node: ast.If, raising: ast.Raise) -> list[Edit]:
    """Return the edits that take the raising branch out of an ``if`` with others."""
    if raising in node.orelse:
        return [without_clause(file, node.body[-1], node.orelse, "else")]
    return without_branch(file, node)


def deleted_spans(file: SourceFile, checks: Sequence[ErrorCheck]) -> list[Span]:
    """Return the spans whose names only the checks needed, for the search for dead code."""
    return [
        file.span(check.node if _is_whole(file, check) or check.kind == "handler" else check.raising)
        for check in checks
    ]


def always_raising(file: SourceFile, checks: Sequence[ErrorCheck]) -> list[Edit]:
    """Return the edits of a trivial solution, in which every check raises whatever the input is."""
    return [
        (file.span(check.node.test), b"False" if check.raising in check.node.orelse else b"True")
        for check in checks
        if isinstance(check.node, ast.If)
    ]


def requirement(file: SourceFile, check: ErrorCheck, *, message: bool) -> str:
    """Return the sentence that says which exception is raised under which condition, with its message if asked."""
    outer = circumstances(file, check.node)
    where = f", where {' and '.join(outer)}" if outer else ""
    if isinstance(check.node, ast.If):
        when = in_words(check.node.test, negated=check.raising in check.node.orelse)
        text = f"raises `{check.exception}` when {when}{where}"
    else:
        assert isinstance(check.node, ast.ExceptHandler) and check.node.type is not None
        attempt = file.parents[check.node]
        assert isinstance(attempt, ast.Try)
        inner = _snippet(file, attempt.body)
        chain = ", chained to it" if check.raising.cause is not None and _is_chained(check.raising) else ""
        text = f"raises `{check.exception}` instead when {inner} raises {_alternatives(check.node.type)}{chain}{where}"
    return text + (_message(file, check.raising) if message else "")


def _snippet(file: SourceFile, body: Sequence[ast.stmt]) -> str:
    """Return the code of a block as a reference: a short statement as a whole, of anything else the first line."""
    whole = " ".join(file.text(body[0]).split())
    if len(body) == 1 and not hasattr(body[0], "body") and len(whole) <= MAX_SNIPPET:
        return f"`{whole}`"
    return f"the code from `{file.text(body[0]).splitlines()[0][:MAX_SNIPPET]}` on"


def _is_chained(node: ast.Raise) -> bool:
    return not (isinstance(node.cause, ast.Constant) and node.cause.value is None)


def _alternatives(node: ast.expr) -> str:
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    return " or ".join(f"`{ast.unparse(item)}`" for item in items)


def _message(file: SourceFile, node: ast.Raise) -> str:
    """Return how the exception is made, with a variable of the same block replaced by its value; empty without text.

    A single text is given as the message.
    """
    if not isinstance(node.exc, ast.Call) or not node.exc.args:
        return ""
    values = [_assigned(file, node, item) for item in node.exc.args]
    if len(values) == 1 and _is_text(values[0]):
        return f"; its message is {_quoted(ast.unparse(values[0]))}"
    return f"; it is made as {_quoted(ast.unparse(node.exc))}"


def _assigned(file: SourceFile, node: ast.Raise, value: ast.expr) -> ast.expr:
    """Return what the block of a ``raise`` assigns to a variable; any other expression as it is."""
    if isinstance(value, ast.Name):
        for item in block(file, node):
            if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == value.id:
                return item.value
    return value


def _is_text(value: ast.expr) -> bool:
    """Return whether an expression is a text: a constant, a formatted one, or ``"..." % x``, ``"...".format(x)``."""
    if isinstance(value, ast.BinOp):
        return _is_text(value.left) or _is_text(value.right)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return _is_text(value.func.value)
    return isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str))


def _quoted(text: str) -> str:
    return f"``{text}``" if "`" in text else f"`{text}`"
