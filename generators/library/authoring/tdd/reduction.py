"""A definition cut down to the code that some tests run; code that no test runs stays."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence

from ....python.source import Edit, apply_edits, line_span, parse, with_leading_comments
from ...deletion.partial.rewriting.blocks import is_elif, unwrapped, without_body, without_clause, without_statements
from ...deletion.removal.source_file import FUNCTIONS, Function, SourceFile

MISSING = b"raise NotImplementedError"
"""The body of a function whose name has to stay."""


class Reduction:
    """One file, the lines that have to stay, the lines that go, and names of methods that have to stay as names."""

    def __init__(self, file: SourceFile, retained: set[int], gone: set[int], needed: Collection[str] = ()) -> None:
        self.file, self.retained, self.gone, self.needed = file, retained, gone, needed

    def source(self, roots: Iterable[ast.stmt]) -> bytes:
        """Return the file in which the definitions ``roots`` lack the statements of which only lines that go ran.

        Raises ValueError when the result is not valid Python, or a generator is not one any more.
        """
        after = apply_edits(self.file.source, [edit for root in roots for edit in self._inside(root)])
        try:
            if _generators(parse(after)) != _generators(self.file.tree, present=_functions(parse(after))):
                raise ValueError(f"{self.file.path}: a generator would lose its last yield")
        except SyntaxError as error:
            raise ValueError(f"{self.file.path}: {error}") from error
        return after

    def untested(self, roots: Iterable[ast.stmt]) -> int:
        """Return how many simple statements go although no test runs them."""
        spans = [
            span for root in roots for span, text in self._inside(root) if text in (b"", b"pass") or MISSING in text
        ]
        return sum(
            self.retained.isdisjoint(lines) and self.gone.isdisjoint(lines)
            for node in ast.walk(self.file.tree)
            if isinstance(node, ast.stmt) and not hasattr(node, "body") and not _is_declaration(node)
            for lines in [range(node.lineno, (node.end_lineno or node.lineno) + 1)]
            if any(start <= self.file.span(node)[0] and self.file.span(node)[1] <= end for start, end in spans)
        )

    def _ends(self, nodes: Sequence[ast.AST]) -> bool:
        """Return whether lines of the nodes go and none of them has to stay."""
        lines = [
            line
            for node in nodes
            for line in range(node.lineno, node.end_lineno + 1)  # type: ignore[attr-defined]
        ]
        return not self.gone.isdisjoint(lines) and self.retained.isdisjoint(lines)

    def _is_hollow(self, node: ast.stmt) -> bool:
        """Return whether a statement stays without content: all its blocks go."""
        if isinstance(node, ast.If):
            return self._ends(node.body) and (not node.orelse or self._ends(node.orelse))
        return isinstance(node, ast.For | ast.AsyncFor | ast.While) and not node.orelse and self._ends(node.body)

    def _block(self, block: Sequence[ast.stmt]) -> list[Edit]:
        ended = [item for item in block if self._ends([item]) or self._is_hollow(item)]
        edits = without_statements(self.file, ended)
        return edits + [edit for item in block if item not in ended for edit in self._inside(item)]

    def _inside(self, node: ast.stmt) -> list[Edit]:
        """Return the edits inside a statement that stays."""
        if isinstance(node, FUNCTIONS):
            return self._missing(node) if self._ends(node.body) else self._block(node.body)
        if isinstance(node, ast.ClassDef):
            return self._class(node)
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, ast.Try | ast.TryStar):
            return self._try(node)
        if isinstance(node, ast.Match):
            ended = [case for case in node.cases if self._ends(case.body)]
            cases = ended if len(ended) < len(node.cases) else []
            edits = [(self._case_span(case), b"") for case in cases]
            return edits + [edit for case in node.cases if case not in cases for edit in self._block(case.body)]
        blocks = [getattr(node, name, []) for name in ("body", "orelse")]
        return [edit for block in blocks if isinstance(block, list) for edit in self._block(block)]

    def _case_span(self, case: ast.match_case) -> tuple[int, int]:
        start = line_span(self.file.source, self.file.span(case.pattern))[0]
        return start, line_span(self.file.source, self.file.span(case.body[-1]))[1]

    def _missing(self, node: Function) -> list[Edit]:
        """Return the edit that replaces the body of a function, without its docstring."""
        first = node.body[0]
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(node.body) > 1
        body = node.body[1:] if documented else node.body
        start, end = self.file.span(body[0])[0], self.file.span(body[-1])[1]
        if body[0].lineno > node.lineno:
            lines = with_leading_comments(self.file.source, (start, end))
            return [(lines, self.file.indentation(body[0]) + MISSING + b"\n")]
        return [((start, end), MISSING)]

    def _class(self, node: ast.ClassDef) -> list[Edit]:
        """Return the edits of a class: methods that go are deleted, unless its body needs their names."""
        methods = [item for item in node.body if isinstance(item, FUNCTIONS) and self._ends(item.body)]
        needed = set(self.needed) | {
            name.id
            for item in node.body
            for part in (item.decorator_list if isinstance(item, FUNCTIONS) else [item])
            for name in ast.walk(part)
            if isinstance(name, ast.Name) and item not in methods
        }
        deleted = [item for item in methods if item.name not in needed]
        edits = without_statements(self.file, deleted)
        return edits + [edit for item in node.body if item not in deleted for edit in self._inside(item)]

    def _if(self, node: ast.If) -> list[Edit]:
        body_ends, other_ends = self._ends(node.body), bool(node.orelse) and self._ends(node.orelse)
        if body_ends and (other_ends or not node.orelse):  # an ``elif``; others go with their block
            return [(line_span(self.file.source, self.file.span(node)), b"")]
        if body_ends:
            return without_body(self.file, node) + self._otherwise(node)
        if other_ends:
            return [self._without_otherwise(node), *self._block(node.body)]
        return self._block(node.body) + self._otherwise(node)

    def _otherwise(self, node: ast.If) -> list[Edit]:
        first = node.orelse[0] if node.orelse else None
        if isinstance(first, ast.If) and is_elif(self.file, first):
            return self._if(first)
        return self._block(node.orelse)

    def _without_otherwise(self, node: ast.If) -> Edit:
        first = node.orelse[0]
        if isinstance(first, ast.If) and is_elif(self.file, first):
            return line_span(self.file.source, self.file.span(first)), b""
        return without_clause(self.file, node.body[-1], node.orelse, "else")

    def _try(self, node: ast.Try | ast.TryStar) -> list[Edit]:
        ended = [item for item in node.handlers if self._ends([item])]
        edits = [edit for block in (node.body, node.orelse, node.finalbody) for edit in self._block(block)]
        edits += [edit for item in node.handlers if item not in ended for edit in self._block(item.body)]
        if ended and len(ended) == len(node.handlers) and not node.finalbody:
            return edits + unwrapped(self.file, node, [node.body, *([node.orelse] if node.orelse else [])])
        if len(ended) == len(node.handlers) and node.orelse:
            return edits
        return edits + [(line_span(self.file.source, self.file.span(item)), b"") for item in ended]


def _is_declaration(node: ast.stmt) -> bool:
    """Return whether a statement never runs: a docstring, ``global``, ``nonlocal``, ``pass`` or ``continue``."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.Global | ast.Nonlocal | ast.Pass | ast.Continue)


def _functions(tree: ast.AST) -> dict[str, Function]:
    """Return the functions of a syntax tree by their dotted names; the last of a name counts."""
    functions: dict[str, Function] = {}
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            name = f"{prefix}.{child.name}" if isinstance(child, (*FUNCTIONS, ast.ClassDef)) else prefix
            if isinstance(child, FUNCTIONS):
                functions[name] = child
            waiting.append((name, child))
    return functions


def _generators(tree: ast.AST, present: dict[str, Function] | None = None) -> set[str]:
    """Return the names of generator functions; of those of ``present``, without functions that only raise."""
    return {
        name
        for name, node in _functions(tree).items()
        if (present is None or (name in present and not _only_raises(present[name]))) and _yields(node)
    }


def _only_raises(node: Function) -> bool:
    return isinstance(node.body[-1], ast.Raise) and ast.unparse(node.body[-1]).encode() == MISSING


def _yields(node: Function) -> bool:
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        item = waiting.pop()
        if isinstance(item, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(item, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(item))
    return False
