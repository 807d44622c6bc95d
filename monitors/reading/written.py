"""The text of a piece of code; an agent may write one that Python refuses to print."""

from __future__ import annotations

import ast


def written(node: ast.AST) -> str:
    """Return an expression's text; one that has none, such as a number of thousands of digits, differs from all others.

    ``ast.unparse`` raises ValueError for such numbers and RecursionError for code that is nested deeply.
    """
    try:
        return ast.unparse(node)
    except (ValueError, RecursionError):
        return f"<{type(node).__name__} {id(node)}>"
