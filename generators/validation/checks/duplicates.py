"""V6: which tasks of a set are the same exercise.

Two tasks are duplicates when one of these rules holds:

- The same code is missing, whatever its names, docstrings and layout, and the same code is there in its place. Within a
  package the variant must be the same too; across packages (a vendored copy) it need not.
- In one package and variant, they share more than nine tenths of FAIL_TO_PASS and more than half of the lines that the
  solutions add. So a class that is little more than one method counts as that method, a class of ten methods and one of
  them do not; nor do two functions that the same tests cover.

Questions are duplicates when statement and answer are the same.

The variant of a task is its generator's choices, the knobs whose value is a word: ``stub`` and ``remove`` of one
function are two exercises. Numbers and flags select or tune candidates and do not count. The first task in the order
of the set stays.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ....models import AnswerVerifier, Task
from .exercise import Exercise, Node, added_lines

MAX_SHARED_TESTS = 0.9
MAX_SHARED_LINES = 0.5
MIN_SIZE = 12
"""Statements and expressions that code must have for its shape alone to show that it is a copy."""


@dataclass(frozen=True)
class Fingerprint:
    """The properties of a task that show whether another task is the same exercise."""

    task_id: str  # the task
    package: str  # name and version of the package
    variant: frozenset[tuple[str, str]]  # the generator's choices: knobs whose value is a word
    shape: str  # digest of the solution's definitions, or of a question; empty when they are small
    start: str  # digest of the same definitions as the workspace has them; empty when no code is left of them
    tests: frozenset[str]  # FAIL_TO_PASS
    lines: frozenset[tuple[str, int]]  # lines that the solution adds, numbered in the solved file


def fingerprint(task: Task, exercise: Exercise) -> Fingerprint:
    """Return the fingerprint of a task."""
    return Fingerprint(
        task_id=task.task_id,
        package=f"{task.repo} {task.version}",
        variant=frozenset((name, value) for name, value in task.generator.knobs.items() if isinstance(value, str)),
        shape=_of_question(task) or shape(piece.node for piece in exercise.pieces),
        start=shape((node for node in exercise.workspace_nodes if _has_code(node)), least=1),
        tests=frozenset(task.FAIL_TO_PASS),
        lines=frozenset((path, number) for path, numbers in added_lines(task.patch).items() for number in numbers),
    )


def _of_question(task: Task) -> str:
    """Return a digest of a question with its answer, '' for a task that a patch solves."""
    if not isinstance(task.verifier, AnswerVerifier):
        return ""
    return hashlib.sha256(f"{task.problem_statement}\0{task.verifier.answer}".encode()).hexdigest()


def duplicates(fingerprints: Sequence[Fingerprint]) -> dict[str, str]:
    """Return the task_id of each duplicate with the task_id that it repeats; the first of a group stays."""
    unique: list[Fingerprint] = []
    repeats: dict[str, str] = {}
    for candidate in fingerprints:
        original = next((other for other in unique if same(other, candidate)), None)
        if original is None:
            unique.append(candidate)
        else:
            repeats[candidate.task_id] = original.task_id
    return repeats


def same(one: Fingerprint, other: Fingerprint) -> bool:
    """Return whether two tasks are the same exercise, by the rules of this module."""
    if one.shape and (one.shape, one.start) == (other.shape, other.start):
        return one.package != other.package or one.variant == other.variant
    if one.package != other.package or one.variant != other.variant:
        return False
    return _share(one.tests, other.tests) > MAX_SHARED_TESTS and _share(one.lines, other.lines) > MAX_SHARED_LINES


def _share(one: frozenset[object], other: frozenset[object]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0


def shape(nodes: Iterable[Node], least: int = MIN_SIZE) -> str:
    """Return a digest of definitions without their own and local names, docstrings and layout.

    It is empty for code with fewer than ``least`` statements and expressions.
    """
    shapes, size = [], 0
    for node in nodes:
        normal = _Normalizer(node).visit(ast.parse(ast.unparse(node)).body[0])
        size += sum(isinstance(item, ast.stmt | ast.expr) for item in ast.walk(normal))
        shapes.append(ast.dump(normal))
    return hashlib.sha256("\n".join(sorted(shapes)).encode()).hexdigest() if size >= least else ""


def _has_code(node: Node) -> bool:
    """Return whether a definition does anything besides raising or passing."""
    statements = [item for item in ast.walk(node) if isinstance(item, ast.stmt) and not isinstance(item, Node)]
    constants = [item for item in statements if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)]
    return any(not isinstance(item, ast.Pass | ast.Raise) and item not in constants for item in statements)


class _Normalizer(ast.NodeTransformer):
    """Numbers the names that a definition binds in order of appearance; drops docstrings and annotations."""

    def __init__(self, node: ast.AST) -> None:
        nodes = list(ast.walk(node))
        bound = [item.arg for item in nodes if isinstance(item, ast.arg)]
        bound += [item.id for item in nodes if isinstance(item, ast.Name) and not isinstance(item.ctx, ast.Load)]
        bound += [item.name for item in nodes if isinstance(item, Node | ast.ExceptHandler) and item.name]
        self.names = {name: f"v{number}" for number, name in enumerate(dict.fromkeys(bound))}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self.names.get(node.arg, node.arg))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        return ast.Assign([node.target], node.value) if node.value else ast.Pass()

    def _definition(self, node: Node) -> ast.AST:
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        if not isinstance(node, ast.ClassDef):
            node.returns = None
        self.generic_visit(node)
        node.name = self.names.get(node.name, node.name)
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _definition
