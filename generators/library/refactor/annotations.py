"""The annotations of a module's functions: which are complete, and the source without or with others."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from ...python.source import Edit, SyntaxSpans, apply_edits, parse

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Annotated:
    """A module whose functions are annotated completely."""

    source: bytes  # its text
    functions: list[str]  # qualified names of its functions and methods
    stripped: bytes = field(default=b"")  # the text without the annotations of functions
    careless: bytes = field(default=b"")  # the text with the annotation ``object`` everywhere

    @property
    def shortcuts(self) -> int:
        """Return how often the module avoids a type."""
        return count_shortcuts(self.source.decode("utf-8", "replace"))


def count_shortcuts(text: str) -> int:
    """Return the number of places that avoid a type: ``Any``, casts, ignored errors, functions without a check."""
    return len(re.findall(r"\bAny\b|\bcast\(|type:\s*ignore|#\s*mypy:|no_type_check", text))


def annotated(source: bytes) -> Annotated | None:
    """Return the annotations of a module, None for one with a function that lacks some or is overloaded."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError):
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, _Function)]
    placed = dict(_placed(tree.body, ""))
    decorators = {ast.unparse(item).rpartition(".")[2] for node in functions for item in node.decorator_list}
    special = decorators & {"overload", "singledispatch", "singledispatchmethod", "register", "no_type_check"}
    if not functions or special or len(placed) != sum(1 for _ in _placed(tree.body, "")):
        return None
    if not all(_is_complete(node, node in methods(tree)) for node in functions):
        return None
    spans = SyntaxSpans(source)
    removals = [edit for node in functions for edit in _removals(spans, node)]
    careless = [(spans.span(item), b"object") for node in functions for item in _annotations(node)]
    return Annotated(source, list(placed), apply_edits(source, removals), apply_edits(source, careless))


def methods(tree: ast.Module) -> set[ast.AST]:
    """Return the functions that stand directly in a class."""
    return {item for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for item in node.body}


def _placed(body: list[ast.stmt], prefix: str) -> list[tuple[str, _Function]]:
    """Return functions of a module and methods of its classes with qualified names."""
    pairs: list[tuple[str, _Function]] = []
    for node in body:
        if isinstance(node, _Function):
            pairs.append((prefix + node.name, node))
        elif isinstance(node, ast.ClassDef):
            pairs += _placed(node.body, f"{prefix}{node.name}.")
    return pairs


def _arguments(node: _Function) -> list[ast.arg]:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    return [item for item in every if item is not None]


def _annotations(node: _Function) -> list[ast.expr]:
    every = [*(item.annotation for item in _arguments(node)), node.returns]
    return [item for item in every if item is not None]


def _is_complete(node: _Function, is_method: bool) -> bool:
    """Return whether every argument but the first of a method is annotated, and what is returned."""
    static = any(ast.unparse(item) == "staticmethod" for item in node.decorator_list)
    missing = [item for item in _arguments(node)[is_method and not static :] if item.annotation is None]
    return not missing and node.returns is not None


def _removals(spans: SyntaxSpans, node: _Function) -> list[Edit]:
    """Return the edits that remove the annotations of a function."""
    edits: list[Edit] = []
    for item in _arguments(node):
        if item.annotation is not None:
            start = spans.span(item)[0] + len(item.arg.encode())
            edits.append(((start, spans.span(item.annotation)[1]), b""))
    if node.returns is not None:
        start, end = spans.span(node.returns)
        arrow = spans.source.rfind(b"->", 0, start)
        edits.append(((spans.source.rfind(b")", 0, arrow) + 1, end), b""))
    return edits
