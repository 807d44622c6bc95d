"""Python source as spans: tree-sitter finds them, edits are byte-exact, nothing is ever re-formatted."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import tree_sitter_python
from tree_sitter import Language, Node, Parser

Span = tuple[int, int]


@functools.cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_python.language()))


@dataclass(frozen=True)
class Definition:
    """A function or class: ``span`` has its decorators, ``body`` starts after the colon's line or docstring."""

    name: str
    kind: str
    span: Span
    node: Node
    line: int

    @property
    def body(self) -> Node:
        found = self.node.child_by_field_name("body")
        assert found is not None, "tree-sitter gives every definition a body"
        return found


class Module:
    """One parsed source file. ``broken`` says that tree-sitter met a syntax error."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.source = source
        self.root = _parser().parse(source).root_node
        self.broken = self.root.has_error

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def definitions(self, within: Node | None = None) -> list[Definition]:
        """Functions and classes that are direct children of the module (or of a class body)."""
        found = []
        for child in (within or self.root).named_children:
            inner = child.child_by_field_name("definition") if child.type == "decorated_definition" else child
            if inner is None or inner.type not in ("function_definition", "class_definition"):
                continue
            name = inner.child_by_field_name("name")
            assert name is not None, "tree-sitter gives every definition a name"
            kind = "class" if inner.type == "class_definition" else "function"
            span = (child.start_byte, child.end_byte)
            found.append(Definition(self.text(name), kind, span, inner, inner.start_point[0] + 1))
        return found

    def statements(self) -> list[Node]:
        """The module's own statements, comments left out."""
        return [node for node in self.root.named_children if node.type != "comment"]


def docstring_node(definition: Definition) -> Node | None:
    """The expression statement that is the docstring, if there is one."""
    first = next((node for node in definition.body.named_children if node.type != "comment"), None)
    if first is None or first.type != "expression_statement" or first.named_child_count != 1:
        return None
    inner = first.named_children[0]
    return first if inner.type in ("string", "concatenated_string") else None


def docstring(module: Module, definition: Definition) -> str:
    """The docstring's cleaned text, empty when there is none."""
    node = docstring_node(definition)
    if node is None:
        return ""
    value = ast.literal_eval(module.text(node))
    if not isinstance(value, str):
        return ""
    import inspect

    return inspect.cleandoc(value)


def signature(module: Module, definition: Definition) -> str:
    """``def name(parameters) -> type:`` as it is written, on one line."""
    end = definition.body.start_byte
    head = module.source[definition.node.start_byte : end].decode("utf-8", "replace")
    head = re.sub(r"#[^\n]*", "", head)
    line = re.sub(r"\s+", " ", head).strip().rstrip(":").rstrip()
    return re.sub(r",? ?\)", ")", re.sub(r"\( ", "(", line))


def line_span(source: bytes, span: Span) -> Span:
    """``span`` grown to whole lines, its last newline included."""
    start = source.rfind(b"\n", 0, span[0]) + 1
    end = source.find(b"\n", span[1])
    return start, len(source) if end < 0 else end + 1


def with_leading_comments(source: bytes, span: Span) -> Span:
    """A whole-line span grown upwards over the comment block that sits directly on it."""
    start, end = line_span(source, span)
    while start > 0:
        above = source.rfind(b"\n", 0, start - 1) + 1
        if not source[above:start].strip().startswith(b"#"):
            break
        start = above
    return start, end


def delete_spans(source: bytes, spans: Iterable[Span]) -> bytes:
    """``source`` without ``spans`` (which may nest); runs of blank lines left behind shrink to two."""
    kept, position = bytearray(), 0
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start < position:
            position = max(position, end)
            continue
        kept += source[position:start]
        position = end
        blank = b"\n\n\n" if kept.strip() else b""
        while kept.endswith(blank) and source[position : position + 1] == b"\n":
            position += 1
    kept += source[position:]
    return bytes(kept)


def words(source: bytes) -> set[str]:
    """Every identifier-like word of a file, in code, strings and comments alike: a safe superset of its references."""
    return set(re.findall(r"[^\W\d]\w*", source.decode("utf-8", "replace")))


def compiles(path: str, source: bytes) -> str:
    """Empty, or why ``source`` is not Python."""
    try:
        compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return str(error)
    return ""
