"""The solution of a renaming: the new name everywhere in the package, and the old one as an alias that warns."""

from __future__ import annotations

import ast
import re

from ...base import Files
from ...python.source import Edit, apply_edits
from ..deletion.removal.source_file import SourceFile
from .symbols import Symbol, listed_names, with_imports

_FUNCTION = '''\
def {old}({first}*args, **kwargs):
    """Call {new}; this name is deprecated."""
    warnings.warn("{old} is deprecated, use {new}", DeprecationWarning, stacklevel=2)
    return {call}(*args, **kwargs)'''
_CLASS = '''\
def __getattr__(name):
    """Return {new} for its deprecated name."""
    if name == "{old}":
        warnings.warn("{old} is deprecated, use {new}", DeprecationWarning, stacklevel=2)
        return {new}
    raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
'''


def renamed_package(symbol: Symbol, new: str) -> Files:
    """Return the files of the package that change, with the new name and the alias."""
    files: Files = {}
    for file in symbol.files:
        if file.path in symbol.index.own:
            edits = _edits(symbol, file, new)
            if edits:
                warns = file is symbol.file or (file in symbol.exporters and symbol.kind == "class")
                files[file.path] = with_imports(apply_edits(file.source, edits), *(["warnings"] if warns else []))
    return files


def silent_alias(symbol: Symbol, new: str) -> Files:
    """Return a wrong solution: the new name is a second name of the same object, and the old one does not warn."""
    line = f"{new} = {symbol.name}"
    edits: list[Edit] = [_after(symbol, line)]
    files: Files = {symbol.file.path: apply_edits(symbol.file.source, edits)}
    for file in symbol.exporters:
        pairs = [(alias, f"{new}, {symbol.name}") for _, alias in symbol.imports(file) if not alias.asname]
        files[file.path] = apply_edits(file.source, [(file.span(alias), text.encode()) for alias, text in pairs])
    return files


def _edits(symbol: Symbol, file: SourceFile, new: str) -> list[Edit]:
    old = symbol.name
    exports = file in symbol.exporters
    edits: list[Edit] = [last_name(file, node, new) for node in symbol.references(file) if _spells(node, old)]
    for _, alias in symbol.imports(file):
        start, _ = file.span(alias)
        text = f"{new}, {old}" if exports and symbol.kind != "class" and not alias.asname else new
        edits.append(((start, start + len(old.encode())), text.encode()))
    for item in listed_names(file, old) if file is symbol.file or exports else ():
        quote = file.text(item)[0]
        text = f"{quote}{new}{quote}" + ("" if symbol.kind == "class" else f", {quote}{old}{quote}")
        edits.append((file.span(item), text.encode()))
    if file is symbol.file:
        edits += _definition_edits(symbol, new)
    if symbol.kind == "class" and (file is symbol.file or exports):
        edits.append(_at_end(file, _CLASS.format(old=old, new=new)))
    return edits


def last_name(file: SourceFile, node: ast.AST, new: str) -> Edit:
    """Return the edit that replaces a name, or the last part of an attribute."""
    start, end = file.span(node)
    if isinstance(node, ast.Attribute):
        start = end - len(node.attr.encode())
    return (start, end), new.encode()


def _spells(node: ast.AST, name: str) -> bool:
    """Return whether a reference uses the name itself, and not a local name for it."""
    return isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and node.id == name)


def _definition_edits(symbol: Symbol, new: str) -> list[Edit]:
    """Return the edits that rename the definition, in its docstring too, and add the alias of a function or method."""
    file, node, old = symbol.file, symbol.node, symbol.name
    start, end = file.span(node)
    head = re.compile(rb"(?:class|def)\s+" + re.escape(old.encode()) + rb"\b").search(file.source, start, end)
    assert head is not None, "a definition holds its name"
    edits: list[Edit] = [((head.end() - len(old.encode()), head.end()), new.encode())]
    if ast.get_docstring(node, clean=False) is not None:
        begin, last = file.span(node.body[0])
        for match in re.finditer(rb"\b" + re.escape(old.encode()) + rb"(?=\()", file.source[begin:last]):
            edits.append(((begin + match.start(), begin + match.end()), new.encode()))
    if symbol.kind != "class":
        first, call = ("self, ", f"self.{new}") if symbol.owner else ("", new)
        edits.append(_after(symbol, _FUNCTION.format(old=old, new=new, first=first, call=call)))
    return edits


def _after(symbol: Symbol, text: str) -> Edit:
    """Return the edit that adds lines after the definition, indented as the definition and its body are."""
    file, node = symbol.file, symbol.node
    end, indentation, inner = file.span(node)[1], file.indentation(node), file.indentation(node.body[0])
    step = inner[len(indentation) :] if inner.startswith(indentation) else b""
    lines = [re.sub(rb"^ {4}", step or b"    ", line.encode()) for line in text.split("\n")]
    added = b"\n".join(indentation + line for line in lines)
    return (end, end), (b"\n\n" if symbol.owner else b"\n\n\n") + added


def _at_end(file: SourceFile, text: str) -> Edit:
    return (len(file.source.rstrip()), len(file.source)), ("\n\n\n" + text).encode()
