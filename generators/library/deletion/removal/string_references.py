"""References that are not expressions: names in ``__all__``, in lazy tables and in annotations."""

from __future__ import annotations

import ast
import re

from ....python.source import Edit
from .name_index import NameIndex
from .source_file import SourceFile


def string_reference(index: NameIndex, file: SourceFile, node: ast.Constant, removed: set[str]) -> str | Edit | None:
    """Return what a string means for the removal: None for nothing, an entry to drop, or an edit of the literal.

    An entry to drop is returned as the dotted name that it provided, which may be empty. Only ``__all__``, tables of a
    module with a ``__getattr__``, and full dotted names count: a common word in any other table is not a reference.
    """
    if file.function(node) is not None:
        return None
    value = str(node.value)
    statement = file.text(file.statement(node)) if len(value) < 20_000 else ""
    if re.match(r"__all__\b", statement):
        listed = [word for word in value.split() if index.canonical(f"{file.dotted}.{word}") in removed]
        if not listed:
            return None
        if listed == [value]:
            return ""
        shortened = re.sub(rf"\s*\b({'|'.join(map(re.escape, listed))})\b", "", file.text(node))
        return file.span(node), shortened.encode()
    if not isinstance(file.parents[node], ast.List | ast.Tuple | ast.Set | ast.Dict):
        return None
    name = value.replace(":", ".")
    package = file.dotted if file.path.endswith("__init__.py") else file.dotted.rpartition(".")[0]
    full = index.canonical(f"{package}{name}" if name.startswith(".") else name)
    provides = _provided(file, node)
    if full in removed and "." in name:
        return provides
    shorts = {item.rsplit(".", 1)[-1] for item in removed if item.rpartition(".")[0] in index.modules}
    if "__getattr__" in file.names and value in shorts and value.isidentifier():
        return provides or f"{file.dotted}.{value}"
    return None


def _provided(file: SourceFile, node: ast.Constant) -> str:
    """Return the dotted name that an entry of a lazy table provides: the key of ``{"Name": ".module:Name"}``."""
    parent = file.parents[node]
    if isinstance(parent, ast.Dict) and "__getattr__" in file.names:
        number = parent.keys.index(node) if node in parent.keys else parent.values.index(node)
        key = parent.keys[number]
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            return f"{file.dotted}.{key.value}"
    return ""


def annotation_edit(file: SourceFile, node: ast.AST) -> Edit | None:
    """Return the edit that deletes the annotation around ``node``; None when it is not part of one."""
    child = node
    for parent in file.ancestors(node):
        if isinstance(parent, ast.arg) and child is parent.annotation:
            start = file.span(parent)[0] + len(parent.arg.encode())
            return (start, file.span(child)[1]), b""
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and child is parent.returns:
            arrow = file.source.rfind(b"->", 0, file.span(child)[0])
            return (len(file.source[:arrow].rstrip()), file.span(child)[1]), b""
        if isinstance(parent, ast.AnnAssign) and child is parent.annotation:
            if parent.value is not None:
                return (file.span(parent.target)[1], file.span(child)[1]), b""
            return None
        if isinstance(parent, ast.stmt):
            return None
        child = parent
    return None
