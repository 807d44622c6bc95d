"""Variables and parameters of functions, renamed at their exact places in the source."""

from __future__ import annotations

import re
import symtable
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from ...python.source import Edit, Module, node_span
from .string_uses import reads_scopes

_MARKED = [
    re.compile(r"(``?)([^\W\d]\w*)(``?)"),
    re.compile(r"(:(?:param|arg|argument|parameter|type|keyword)(?: [\w.\[\], ]+?)? )([^\W\d]\w*)(:)"),
    re.compile(r"((?<![*\w])\*)([^\W\d]\w*)(\*(?![*\w]))"),
    re.compile(r"(^[ \t]+)([^\W\d]\w*)( ?(?:\([^()\n]*\))?:[ \n])", re.MULTILINE),
    re.compile(r"(^[ \t]+)([^\W\d]\w*)( : )", re.MULTILINE),
]
"""Forms of reStructuredText, Google's and numpy's docstrings that mark a parameter."""
_FIXED = frozenset({"self", "cls", "mcs", "args", "kwargs", "_"})


@dataclass(frozen=True)
class Function:
    """An outermost function (a method counts) with the names that belong to it and to the functions in it alone."""

    node: Node  # its definition
    parameters: frozenset[str]  # names of its own parameters and of those of inner functions
    variables: frozenset[str]  # its other variables
    outer_parameters: frozenset[str]  # its own parameters, which callers may know


def functions(module: Module) -> list[Function]:
    """Return the outermost functions of a module; none when it cannot be compiled."""
    try:
        table = symtable.symtable(module.source.decode("utf-8"), module.path, "exec")
    except (SyntaxError, ValueError):
        return []
    tables = {(item.get_name(), item.get_lineno()): item for item in _outermost(table)}
    result = []
    for node in _definitions(module.root):
        name = node.child_by_field_name("name")
        table_of_node = tables.get((module.text(name), node.start_point[0] + 1)) if name is not None else None
        if table_of_node is not None and not reads_scopes(re.findall(r"\w+", module.text(node))):
            result.append(_function(node, table_of_node))
    return result


def local_edits(module: Module, names: Mapping[str, str], parameters: Mapping[str, str]) -> list[Edit]:
    """Return the edits that rename the variables ``names`` and the ``parameters`` of all functions of a module."""
    edits: dict[tuple[int, int], bytes] = {}
    for function in functions(module):
        chosen = {name: new for name, new in names.items() if name in function.variables}
        chosen |= {name: new for name, new in parameters.items() if name in function.parameters}
        for node in _identifiers(function.node):
            new = chosen.get(module.text(node))
            if new is not None:
                edits[node_span(node)] = new.encode()
        for node in _docstrings(function.node):
            edits[node_span(node)] = documented(module.text(node), chosen).encode()
    return sorted(edits.items())


def documented(text: str, parameters: Mapping[str, str]) -> str:
    """Return a text in which parameters have their new names, where it marks them as parameters."""
    for pattern in _MARKED:
        text = pattern.sub(lambda match: match[1] + parameters.get(match[2], match[2]) + match[3], text)
    return text


def _docstrings(function: Node) -> Iterator[Node]:
    """Yield the docstring of a function, and texts that stand alone as statements in it."""
    body = function.child_by_field_name("body")
    for statement in body.named_children if body is not None else ():
        if statement.type == "expression_statement" and statement.named_children[0].type == "string":
            text = statement.named_children[0]
            if not any(child.type == "interpolation" for child in text.named_children):
                yield text


def _outermost(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        if child.get_type() == "class":
            yield from _outermost(child)
        elif child.get_type() == "function":
            yield child


def _function(node: Node, table: symtable.SymbolTable) -> Function:
    tables = list(_below(table))
    local: set[str] = set()
    parameters: set[str] = set()
    barred: set[str] = set(_FIXED)
    for item in tables:
        for symbol in item.get_symbols():
            name = symbol.get_name()
            is_class = item.get_type() == "class" and symbol.is_local()
            if symbol.is_global() or symbol.is_imported() or symbol.is_namespace() or is_class or name[:2] == "__":
                barred.add(name)
            elif symbol.is_parameter():
                parameters.add(name)
            elif symbol.is_local():
                local.add(name)
    parameters = {name for name in parameters - barred if name.isidentifier()}
    outer = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_parameter()}
    return Function(node, frozenset(parameters), frozenset(local - barred - parameters), frozenset(outer & parameters))


def _below(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _below(child)


def _definitions(node: Node) -> Iterator[Node]:
    """Yield functions that are in no other function."""
    for child in node.named_children:
        if child.type == "function_definition":
            yield child
        elif child.type != "lambda":
            yield from _definitions(child)


def _identifiers(function: Node) -> Iterator[Node]:
    """Yield the places where names of the function may be used: its parameters' names and everything in its body."""
    parameters, body = function.child_by_field_name("parameters"), function.child_by_field_name("body")
    for parameter in parameters.named_children if parameters is not None else ():
        name = parameter.child_by_field_name("name") or parameter
        yield from (node for node in [name, *name.named_children[:1]] if node.type == "identifier")
    if body is not None:
        yield from _names(body)


def _names(node: Node) -> Iterator[Node]:
    if node.type == "identifier":
        yield node
        return
    skipped = {"attribute": "attribute", "keyword_argument": "name"}.get(node.type)
    fixed = node.child_by_field_name(skipped) if skipped else None
    children = node.named_children[1:] if node.type == "keyword_pattern" else node.named_children
    for child in children:
        if fixed is None or child.id != fixed.id:
            yield from _names(child)
