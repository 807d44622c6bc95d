"""V6: which tasks of a set are the same exercise twice.

Two tasks are duplicates when

- they remove the same code, whatever its names, docstrings and layout: within a package the same mode and test
  visibility too (``stub`` and ``remove`` of one function are two exercises), across packages any (a vendored copy);
- or they share more than nine tenths of FAIL_TO_PASS in one package *and* more than half of what they remove (lines
  of the same file). So a class that is little more than one method counts as that method, a class of ten methods and
  one of them do not; nor do two functions that the same tests cover.

The first in the order of the set stays.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ....models import Task
from .removed import Exercise, Piece, added_lines

MAX_SHARED_TESTS = 0.9
MAX_SHARED_LINES = 0.5
MIN_SIZE = 12
"""Statements and expressions that code must have for its shape alone to say that it is a copy."""


@dataclass(frozen=True)
class Print:
    """What is compared. ``shape`` is empty for code too small to tell."""

    task_id: str
    package: str
    variant: tuple[str, str]
    shape: str
    tests: frozenset[str]
    lines: frozenset[tuple[str, int]]


def fingerprint(task: Task, exercise: Exercise) -> Print:
    # Lines count in the solved file, which is the same for all tasks of a Snapshot.
    lines = frozenset((path, number) for path, found in added_lines(task.patch).items() for number in found)
    knobs = task.generator.knobs
    return Print(
        task_id=task.task_id,
        package=f"{task.repo} {task.version}",
        variant=(str(knobs.get("mode", "")), str(knobs.get("tests", ""))),
        shape=shape(exercise.pieces),
        tests=frozenset(task.FAIL_TO_PASS),
        lines=lines,
    )


def duplicates(prints: Sequence[Print]) -> dict[str, str]:
    """task_id of each duplicate to the task_id that it repeats; the first of a group stays."""
    kept: list[Print] = []
    found: dict[str, str] = {}
    for each in prints:
        original = next((other for other in kept if same(other, each)), None)
        if original is None:
            kept.append(each)
        else:
            found[each.task_id] = original.task_id
    return found


def same(one: Print, other: Print) -> bool:
    """Whether they are one exercise, by the rules of this module."""
    if one.shape and one.shape == other.shape:
        return one.package != other.package or one.variant == other.variant
    if one.package != other.package or one.variant != other.variant:
        return False
    return _share(one.tests, other.tests) > MAX_SHARED_TESTS and _share(one.lines, other.lines) > MAX_SHARED_LINES


def _share(one: frozenset[object], other: frozenset[object]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0


def shape(pieces: Iterable[Piece]) -> str:
    """A digest of code without its own and its local names, docstrings and layout; empty when it is small."""
    shapes, size = [], 0
    for piece in pieces:
        node = _Normal(piece.node).visit(ast.parse(ast.unparse(piece.node)).body[0])
        size += sum(isinstance(item, ast.stmt | ast.expr) for item in ast.walk(node))
        shapes.append(ast.dump(node))
    return hashlib.sha256("\n".join(sorted(shapes)).encode()).hexdigest() if size >= MIN_SIZE else ""


class _Normal(ast.NodeTransformer):
    """Names bound inside become numbers in order of appearance; docstrings and annotations go."""

    def __init__(self, node: ast.AST) -> None:
        bound = [item.arg for item in ast.walk(node) if isinstance(item, ast.arg)]
        bound += [
            item.id for item in ast.walk(node) if isinstance(item, ast.Name) and not isinstance(item.ctx, ast.Load)
        ]
        bound += [
            item.name
            for item in ast.walk(node)
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler) and item.name
        ]
        self.names = {name: f"v{number}" for number, name in enumerate(dict.fromkeys(bound))}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self.names.get(node.arg, node.arg))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        return ast.Assign([node.target], node.value) if node.value else ast.Pass()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._definition(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._definition(node)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        if not isinstance(node, ast.ClassDef):
            node.returns = None
        self.generic_visit(node)
        node.name = self.names.get(node.name, node.name)
        return node
