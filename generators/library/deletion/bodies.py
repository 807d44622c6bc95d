"""The body of a function: its span, other bodies in its place, and what it says of itself."""

from __future__ import annotations

import ast
import re

from ...python.source import Definition, Module, Span, docstring_node, line_span
from .documentation import redact_docstring
from .edits import Edit

STUB = "raise NotImplementedError"
_STUBS = (b"pass", b"...", b"raise NotImplementedError", b"raise NotImplementedError()", b"")


def body_span(module: Module, definition: Definition) -> Span:
    """The statements after the docstring, to the end of the definition (trailing comments belong to the body)."""
    doc = docstring_node(definition)
    statements = [node for node in definition.body.children if node.type != "comment"]
    if doc is not None:
        return doc.end_byte, definition.span[1]
    # Comments before the first statement sit outside tree-sitter's block, right after the colon.
    colon = next(child for child in reversed(definition.node.children) if child.type == ":")
    return (colon.end_byte if statements else definition.body.start_byte), definition.span[1]


def body_edits(module: Module, definition: Definition, text: str, *, redact: bool) -> list[Edit]:
    """Another body for the function; ``redact`` takes the examples out of its docstring too."""
    indent = _indent(module, definition)
    lines = b"".join(b"\n" + indent + line.encode() for line in text.splitlines())
    edits: list[Edit] = [(body_span(module, definition), lines)]
    return edits + (docstring_edits(module, definition) if redact else [])


def docstring_edits(module: Module, definition: Definition) -> list[Edit]:
    """The docstring without its examples, if it has any."""
    doc = docstring_node(definition)
    if doc is None or ">>>" not in module.text(doc):
        return []
    return [((doc.start_byte, doc.end_byte), _redacted_literal(module.text(doc)).encode())]


def _redacted_literal(literal: str) -> str:
    """A docstring literal without its examples; quotes and prefix stay as they are written."""
    found = re.match(r"(?s)([A-Za-z]*)('''|\"\"\"|'|\")(.*)\2$", literal)
    if found is None or ">>>" not in literal:
        return literal
    prefix, quote, text = found.groups()
    tail = re.search(r"\n[ \t]*$", text)
    kept = redact_docstring(text).rstrip()
    return f"{prefix}{quote}{kept}{tail.group() if tail else ''}{quote}"


def _indent(module: Module, definition: Definition) -> bytes:
    """The body's own indentation; a one-line function gets four spaces more than its ``def``."""
    first = definition.body.named_children[0]
    if first.start_point[0] > definition.node.start_point[0]:
        start, _ = line_span(module.source, (first.start_byte, first.end_byte))
        lead = module.source[start : first.start_byte]
        if not lead.strip():
            return lead
    start, _ = line_span(module.source, (definition.node.start_byte, definition.node.start_byte))
    return module.source[start : definition.node.start_byte] + b"    "


def code_lines(module: Module, definition: Definition) -> int:
    """Lines of the body that are neither blank nor comment, the docstring left out."""
    start, end = body_span(module, definition)
    lines = module.source[start:end].decode("utf-8", "replace").splitlines()
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))


def is_stub(module: Module, definition: Definition) -> bool:
    """Nothing to write: the body is empty or raises NotImplementedError as it stands."""
    start, end = body_span(module, definition)
    return module.source[start:end].strip() in _STUBS


def parsed(module: Module, definition: Definition) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef:
    """The definition's own syntax tree, decorators left out."""
    start, _ = line_span(module.source, (definition.node.start_byte, definition.node.start_byte))
    lead = module.source[start : definition.node.start_byte].decode("utf-8", "replace")
    text = module.text(definition.node)
    found = ast.parse(f"if 1:\n{lead}{text}" if lead else text).body[0]
    node = found.body[0] if isinstance(found, ast.If) else found
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    return node


def decorators(module: Module, definition: Definition) -> list[str]:
    """Decorators as they are written, without ``@``."""
    node = definition.node.parent
    if node is None or node.type != "decorated_definition":
        return []
    return [module.text(child)[1:].strip() for child in node.children if child.type == "decorator"]


def raised(module: Module, definition: Definition) -> list[str]:
    """Exception names that the deleted code raises itself, in order of appearance."""
    found: list[str] = []
    for node in ast.walk(parsed(module, definition)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            name = ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
            if re.fullmatch(r"[A-Za-z_][\w.]*", name) and name[0].isupper() | ("." in name) and name not in found:
                found.append(name)
    return found


def trivial_bodies(module: Module, definition: Definition, *, method: bool) -> dict[str, str]:
    """The answers that need no reading: each must score 0, or the tests do not test the function."""
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
    if _yields(node):
        bodies |= {"no_items": "return\nyield"}
        if arguments and isinstance(node, ast.FunctionDef):
            bodies["argument_items"] = f"yield from {arguments[0]}"
    return bodies


def _yields(node: ast.AST) -> bool:
    """Whether the function is a generator; functions inside it do not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef) and _yields(child):
            return True
    return False
