"""Python source as byte spans, so that edits are exact and nothing is ever reformatted.

``Module`` (tree-sitter) reads any file, broken ones too, and keeps comments; ``SyntaxSpans`` locates nodes of ``ast``.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import types
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import tree_sitter_python
from tree_sitter import Language, Node, Parser

Span = tuple[int, int]
"""First byte and the byte after the last."""
Edit = tuple[Span, bytes]
"""A span and the bytes that replace it."""


@functools.cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_python.language()))


@dataclass(frozen=True)
class Definition:
    """A function or class of a module."""

    name: str  # its own name, without those of classes around it
    kind: Literal["function", "class"]  # methods are functions
    span: Span  # the definition with its decorators
    node: Node  # the definition without its decorators

    @property
    def body(self) -> Node:
        """Return the block, which starts at the first statement (the docstring, where there is one)."""
        body = self.node.child_by_field_name("body")
        assert body is not None, "tree-sitter gives every definition a body"
        return body


class Module:
    """One parsed source file; ``broken`` is true when tree-sitter met a syntax error."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.source = source
        self.root = _parser().parse(source).root_node
        self.broken = self.root.has_error

    def text(self, node: Node) -> str:
        """Return the source of a node."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def definitions(self, within: Node | None = None) -> list[Definition]:
        """Return functions and classes that are direct children of the module, or of the class body ``within``."""
        definitions = []
        for child in (within or self.root).named_children:
            inner = child.child_by_field_name("definition") if child.type == "decorated_definition" else child
            if inner is None or inner.type not in ("function_definition", "class_definition"):
                continue
            name = inner.child_by_field_name("name")
            assert name is not None, "tree-sitter gives every definition a name"
            kind: Literal["function", "class"] = "class" if inner.type == "class_definition" else "function"
            definitions.append(Definition(self.text(name), kind, node_span(child), inner))
        return definitions

    def statements(self) -> list[Node]:
        """Return the module's own statements without comments."""
        return [node for node in self.root.named_children if node.type != "comment"]


def node_span(node: Node) -> Span:
    """Return the span of a tree-sitter node."""
    return node.start_byte, node.end_byte


_PLAIN_LITERAL = re.compile(r"(?s)[uU]?(\"\"\"|\'\'\'|\"|\')(.*)\1")
_CONTROL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[abfnrtv0x]")


def docstring_node(definition: Definition) -> Node | None:
    """Return the expression statement that is the docstring, or None."""
    first = next((node for node in definition.body.named_children if node.type != "comment"), None)
    if first is None or first.type != "expression_statement" or first.named_child_count != 1:
        return None
    return first if first.named_children[0].type in ("string", "concatenated_string") else None


def docstring(module: Module, definition: Definition) -> str:
    """Return the docstring without its indentation; empty when there is none.

    One with escapes for line breaks, tabs and the like is as the source writes it: there, these are part of a sentence.
    """
    node = docstring_node(definition)
    text = module.text(node) if node is not None else "''"
    value = ast.literal_eval(text)
    if not isinstance(value, str):
        return ""
    literal = _PLAIN_LITERAL.fullmatch(text)
    if literal and _CONTROL_ESCAPE.search(literal[2]):
        value = re.sub(r"\\\r?\n", "", literal[2])
    return inspect.cleandoc(value)


def signature(module: Module, definition: Definition) -> str:
    """Return ``def name(parameters) -> type`` as the source writes it, on one line."""
    start, end = definition.node.start_byte, definition.body.start_byte
    source, stack = bytearray(module.source[start:end]), list(definition.node.children)
    while stack:  # a `#` in a default is not a comment
        node = stack.pop()
        if node.type == "comment" and node.end_byte <= end:
            source[node.start_byte - start : node.end_byte - start] = b" " * (node.end_byte - node.start_byte)
        elif node.start_byte < end:
            stack.extend(node.children)
    head = source.decode("utf-8", "replace")
    line = re.sub(r"\s+", " ", head).strip().rstrip(":").rstrip()
    return re.sub(r",? ?\)", ")", re.sub(r"\( ", "(", line))


def assigned_name(module: Module, node: Node) -> str:
    """Return the name that a statement ``name = value`` binds; empty for any other statement."""
    child = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
    target = child.child_by_field_name("left") if child is not None and child.type == "assignment" else None
    return module.text(target) if target is not None and target.type == "identifier" else ""


def line_span(source: bytes, span: Span) -> Span:
    """Return ``span`` extended to whole lines, with the last newline."""
    start = source.rfind(b"\n", 0, span[0]) + 1
    end = source.find(b"\n", span[1])
    return start, len(source) if end < 0 else end + 1


def indentation(source: bytes, position: int) -> bytes:
    """Return the tabs and blanks that indent the line at a byte; those before a form feed do not count."""
    start = max(source.rfind(b"\n", 0, position), source.rfind(b"\r", 0, position)) + 1
    lead = re.compile(rb"[ \t\f]*").match(source, start)
    return lead[0].rpartition(b"\f")[2] if lead else b""


def with_leading_comments(source: bytes, span: Span) -> Span:
    """Return ``span`` extended to whole lines and over the comment block directly above it."""
    start, end = line_span(source, span)
    while start > 0:
        above = source.rfind(b"\n", 0, start - 1) + 1
        if not source[above:start].strip().startswith(b"#"):
            break
        start = above
    return start, end


MAX_NEWLINES = 3
"""Newlines in a row that remain where whole lines are deleted: two blank lines."""


def apply_edits(source: bytes, edits: Iterable[Edit]) -> bytes:
    """Return ``source`` with every edit made.

    An edit inside another is dropped; overlapping deletions are merged. Where whole lines are deleted, at most two
    blank lines remain.
    """
    result, position = bytearray(), 0
    for (start, end), replacement in _disjoint(edits):
        result += source[position:start] + replacement
        position = end
        if replacement or (result and not result.endswith(b"\n")):
            continue
        above = len(result) - len(result.rstrip(b"\n"))
        below = len(source[position:]) - len(source[position:].lstrip(b"\n"))
        allowed = MAX_NEWLINES if result.strip() else 0
        position += min(below, max(0, above + below - allowed))
    return bytes(result + source[position:])


def _disjoint(edits: Iterable[Edit]) -> list[Edit]:
    result: list[Edit] = []
    for span, replacement in sorted(set(edits), key=lambda edit: (edit[0][0], -edit[0][1])):
        if not result or span[0] >= result[-1][0][1]:
            result.append((span, replacement))
            continue
        (start, end), before = result[-1]
        if span[1] > end:
            result[-1] = ((start, span[1]), before or replacement)
    return result


def items_without(source: bytes, items: list[Span], dropped: set[int], *, is_tuple: bool = False) -> list[Edit]:
    """Return edits that drop items (by number) from a comma-separated list, each run with the comma next to it."""
    if len(dropped) == len(items):
        end = items[-1][1]
        if source[end:].lstrip().startswith(b","):
            end = source.index(b",", end) + 1
        return [((items[0][0], end), b"")]
    edits: list[Edit] = []
    first = 0
    while first < len(items):
        last = first
        while last < len(items) and last in dropped:
            last += 1
        if last > first:
            at_end = last == len(items)
            start = items[first - 1][1] if at_end else items[first][0]
            edits.append(((start, items[-1][1] if at_end else items[last][0]), b""))
        first = last + 1
    remaining = [number for number in range(len(items)) if number not in dropped]
    if is_tuple and len(remaining) == 1 and not source[items[-1][1] :].lstrip().startswith(b","):
        # Parentheses around one item are a tuple only with a comma.
        if remaining[0] == 0:
            return [((items[0][1], items[-1][1]), b",")]
        edits.append(((items[-1][1], items[-1][1]), b","))
    return edits


def delete_spans(source: bytes, spans: Iterable[Span]) -> bytes:
    """Return ``source`` without ``spans`` (which may nest); runs of blank lines that remain shrink to two."""
    result, position = bytearray(), 0
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start < position:
            position = max(position, end)
            continue
        result += source[position:start]
        position = end
        blank = b"\n\n\n" if result.strip() else b""
        while result.endswith(blank) and source[position : position + 1] == b"\n":
            position += 1
    return bytes(result + source[position:])


def blank_spans(source: bytes, spans: Iterable[Span]) -> bytes:
    """Return ``source`` of the same length with newlines in place of ``spans``."""
    result = bytearray(source)
    for start, end in spans:
        result[start:end] = b"\n" * (end - start)
    return bytes(result)


def words(source: bytes) -> set[str]:
    """Return every word that may be an identifier, in code, strings and comments: a superset of all references."""
    return set(re.findall(r"[^\W\d]\w*", source.decode("utf-8", "replace")))


def compile_error(path: str, source: bytes) -> str:
    """Return why ``source`` is not valid Python; empty when it is."""
    try:
        compiled(source, path)
    except (SyntaxError, ValueError) as error:
        return str(error)
    return ""


def compiled(source: bytes | ast.Module, path: str = "") -> types.CodeType:
    """Return the code of a module without emitting warnings. Raises SyntaxError or ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code: types.CodeType = compile(source, path, "exec", dont_inherit=True)
    return code


def parse(source: bytes) -> ast.Module:
    """Return the syntax tree without emitting warnings. Raises SyntaxError or ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


@functools.lru_cache(maxsize=24)
def parsed(source: bytes) -> ast.Module:
    """Return the syntax tree of a file that many candidates share; callers must not change it. Raises as ``parse``."""
    return parse(source)


def parse_or_empty(source: bytes) -> ast.Module:
    """Return the syntax tree without emitting warnings; one without statements for broken Python."""
    try:
        return parse(source)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


class SyntaxSpans:
    """The byte spans of ``ast`` nodes in one source; ``ast`` counts columns in UTF-8 bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._starts = [0, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", source))]

    def span(self, node: ast.AST) -> Span:
        """Return the span of a node that has a position."""
        start: int = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end: int = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def text(self, node: ast.AST) -> bytes:
        """Return the source of a node."""
        start, end = self.span(node)
        return self.source[start:end]

    def indentation(self, node: ast.AST) -> bytes:
        """Return the tabs and blanks that indent the first line of a node, of a definition that of its ``def``."""
        return indentation(self.source, self._starts[node.lineno - 1])  # type: ignore[attr-defined]
