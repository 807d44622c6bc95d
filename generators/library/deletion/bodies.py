"""The body of a function: its span, replacements for it, its decorators and the exceptions that it raises."""

from __future__ import annotations

import ast
import re

from ...python.source import Definition, Edit, Module, Span, docstring_node, indentation
from .documentation import redact_docstring

STUB = "raise NotImplementedError"
MAX_CONSTANTS = 2
"""Most literals of a function that are tried as its only answer."""
_STUBS = (b"pass", b"...", b"raise NotImplementedError", b"raise NotImplementedError()", b"")


def body_span(module: Module, definition: Definition) -> Span:
    """Return the span from the end of the docstring to the end of the definition, with trailing comments."""
    doc = docstring_node(definition)
    statements = [node for node in definition.body.children if node.type != "comment"]
    if doc is not None:
        return doc.end_byte, definition.span[1]
    # tree-sitter puts comments before the first statement outside the block, right after the colon.
    colon = next(child for child in reversed(definition.node.children) if child.type == ":")
    return (colon.end_byte if statements else definition.body.start_byte), definition.span[1]


def body_edits(module: Module, definition: Definition, text: str, *, redact: bool) -> list[Edit]:
    """Return the edits that give the function another body; ``redact`` drops the examples of its docstring too."""
    indent = _indent(module, definition)
    lines = b"".join(b"\n" + indent + line.encode() for line in text.splitlines())
    edits: list[Edit] = [(body_span(module, definition), lines)]
    return edits + (docstring_edits(module, definition) if redact else [])


def docstring_edits(module: Module, definition: Definition) -> list[Edit]:
    """Return the edit that drops the examples of the docstring, if it has any."""
    doc = docstring_node(definition)
    if doc is None or ">>>" not in module.text(doc):
        return []
    return [((doc.start_byte, doc.end_byte), _redacted_literal(module.text(doc)).encode())]


def _redacted_literal(literal: str) -> str:
    """Return a docstring literal without its examples; quotes and prefix stay as they are."""
    match = re.match(r"(?s)([A-Za-z]*)('''|\"\"\"|'|\")(.*)\2$", literal)
    if match is None:
        return literal
    prefix, quote, text = match.groups()
    tail = re.search(r"\n[ \t]*$", text)
    redacted = redact_docstring(text).rstrip()
    return f"{prefix}{quote}{redacted}{tail.group() if tail else ''}{quote}"


def _indent(module: Module, definition: Definition) -> bytes:
    """Return the indentation of the body; for a one-line function, four spaces more than that of its ``def``."""
    first = definition.body.named_children[0]
    if first.start_point[0] > definition.node.start_point[0]:
        return indentation(module.source, first.start_byte)
    return indentation(module.source, definition.node.start_byte) + b"    "


def code_lines(module: Module, definition: Definition) -> int:
    """Return the number of lines of the body without blank lines, comments and the docstring."""
    start, end = body_span(module, definition)
    lines = module.source[start:end].decode("utf-8", "replace").splitlines()
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))


def is_empty(module: Module, definition: Definition) -> bool:
    """Return whether the body is empty or only raises NotImplementedError, so that there is nothing to write."""
    start, end = body_span(module, definition)
    return module.source[start:end].strip() in _STUBS


def parsed(module: Module, definition: Definition) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef:
    """Return the syntax tree of the definition without its decorators."""
    lead = indentation(module.source, definition.node.start_byte).decode()
    text = module.text(definition.node)
    statement = ast.parse(f"if 1:\n{lead}{text}" if lead else text).body[0]
    node = statement.body[0] if isinstance(statement, ast.If) else statement
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    return node


def decorators(module: Module, definition: Definition) -> list[str]:
    """Return the decorators as the source writes them, without ``@``."""
    node = definition.node.parent
    if node is None or node.type != "decorated_definition":
        return []
    return [module.text(child)[1:].strip() for child in node.children if child.type == "decorator"]


def raised_names(module: Module, definition: Definition) -> list[str]:
    """Return the names of exceptions that the code raises itself, in order of appearance."""
    names: list[str] = []
    for node in ast.walk(parsed(module, definition)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            name = ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
            short = name.rpartition(".")[2]
            is_name = re.fullmatch(r"[A-Za-z_][\w.]*", name) and short[0].isupper()
            if is_name and short not in names and short != "NotImplementedError":
                names.append(short)
    return names


def trivial_bodies(module: Module, definition: Definition, *, method: bool) -> dict[str, str]:
    """Return bodies that need no knowledge of the task, by name: each must score 0, or the tests are too weak."""
    node = parsed(module, definition)
    assert not isinstance(node, ast.ClassDef)
    if node.name == "__init__":
        return {"none": "pass"}
    bodies = {"none": "return None", "true": "return True", "empty": "return ''", "list": "return []"}
    arguments = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
    if method and arguments and "staticmethod" not in decorators(module, definition):
        bodies["itself"] = f"return {arguments.pop(0)}"
    if arguments:
        bodies["first_argument"] = f"return {arguments[0]}"
    for number, constant in enumerate(_returned_constants(node)[:MAX_CONSTANTS]):
        bodies[f"own_constant_{number + 1}"] = f"return {constant}"
    if _yields(node):
        bodies |= {"no_items": "return\nyield"}
        if arguments and isinstance(node, ast.FunctionDef):
            bodies["argument_items"] = f"yield from {arguments[0]}"
    return bodies


def _returned_constants(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the texts of literals that a function returns, by itself or through a name, other than trivial ones."""
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    names = {value.id for value in returned if isinstance(value, ast.Name)}
    values = returned + [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id in names for to in node.targets)
    ]
    constants = [value for value in values if isinstance(value, ast.Constant) and value.value not in (None, True, "")]
    return list(dict.fromkeys(ast.unparse(value) for value in constants))


def _yields(node: ast.AST) -> bool:
    """Return whether the function is a generator; functions inside it do not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef) and _yields(child):
            return True
    return False
