"""Literals of the tests and examples that an agent could read, in one form of writing."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from ...base import Inspection

DATA = re.compile(r"(?=.{5,})(?=.*[\d%&?=;<>\\@]|.*[^\x00-\x7f]).*|[^\x00-\x7f]{2,}", re.DOTALL)
"""A text that is data, and not a keyword, a mode or a name."""
MAX_TEXT = 4 << 20
"""Most characters of tests and results that code is compared with."""
_LITERAL = re.compile(r"""(?<!\w)([a-zA-Z]{0,2})("(?:[^"\\\n]|\\.){0,300}"|'(?:[^'\\\n]|\\.){0,300}')""")
_PREFIXED = re.compile(r"""\b[uU](?=["'])""")


def shown_text(inspection: Inspection, *, statement: bool = True) -> str:
    """Return the visible tests, what the agent was shown of tests, and the statement, as ``normal`` writes them."""
    tests = tuple(data for _, data in sorted(inspection.tests.items()))
    bodies = tuple(call.body for call in inspection.calls)
    return _shown(tests, bodies, inspection.task.problem_statement if statement else None)


@lru_cache(maxsize=16)
def _shown(tests: tuple[bytes, ...], bodies: tuple[str, ...], statement: str | None) -> str:
    """Return the texts as ``normal`` writes them; cached, since every table of a file is compared with them."""
    shown = [data.decode("utf-8", "replace") for data in tests]
    shown += [body for body in bodies if "assert" in body or ">>>" in body]
    if statement is not None:
        shown.append(statement)
    return normal("\n".join(shown)[:MAX_TEXT])


@lru_cache(maxsize=16)
def normal(text: str) -> str:
    """Return a text without spaces, brackets, kinds of quotes, prefixes and escapes of its string literals."""
    if "\\" in text:
        text = _LITERAL.sub(_plain, text)
    return _squeezed(_PREFIXED.sub("", text))


def _squeezed(text: str) -> str:
    """Return a text without spaces and brackets, with one kind of quotes."""
    return re.sub(r"[\s()\[\]]+", "", text.replace('"', "'"))


def quoted(value: object) -> str:
    """Return a constant as Python writes it, in the form of ``normal``."""
    return _squeezed(repr(value))


def text_of(value: object) -> str:
    """Return a constant as text; bytes are read as Latin-1."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _plain(match: re.Match[str]) -> str:
    """Return a text literal as ``repr`` writes it; bytes, raw and formatted ones stay as they are."""
    if "\\" not in match[0] or match[1] not in ("", "u", "U"):
        return match[0]
    try:
        return repr(ast.literal_eval(match[2]))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return match[0]


def is_literal(node: ast.AST | None) -> bool:
    """Return whether an expression consists of constants alone."""
    if isinstance(node, ast.Constant):
        return node.value is not Ellipsis
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(is_literal(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return all(is_literal(item) for item in [*node.keys, *node.values])
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and is_literal(node.operand)


def is_built(node: ast.AST | None) -> bool:
    """Return whether an expression is a literal, or an object that is made of literals, as ``time(23, 20)``."""
    if isinstance(node, ast.Call):
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        is_named = isinstance(node.func, ast.Name | ast.Attribute)
        return is_named and any(map(is_built, parts)) and all(is_built(part) or _is_name(part) for part in parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return is_built(node.operand)
    if isinstance(node, ast.Tuple | ast.List):
        return bool(node.elts) and all(map(is_built, node.elts)) or is_literal(node)
    return is_literal(node)


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute)


def source_of(node: ast.AST | None) -> str:
    """Return a literal as ``normal`` writes it."""
    try:
        text = ast.unparse(node) if node is not None else ""
    except (RecursionError, ValueError):
        return ""
    return _squeezed(_PREFIXED.sub("", text))
