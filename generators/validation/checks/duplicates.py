"""V6: which tasks of a set are the same exercise.

Two tasks are duplicates when one of these rules holds:

- The same code is missing, whatever its names, docstrings and layout, and the same code is there in its place. Within a
  package the variant must be the same too; across packages (a vendored copy) it need not.
- In one package and variant, they share more than nine tenths of FAIL_TO_PASS and more than half of the lines that the
  solutions add. So a class that is little more than one method counts as that method, a class of ten methods and one of
  them do not; nor do two functions that the same tests cover.

- In one package, the workspace and the solution are the same files, whichever generators and knobs made them.
- In one package and variant, the same definitions are missing or wrong, the same tests fail (nine tenths of them), and
  the statements share nine tenths of their shingles: two mistakes in one function that a reader cannot distinguish.
- The solutions' differences share four fifths of their shingles across packages (a vendored or older copy with small
  changes), or more than nineteen twentieths in one package and variant. Small differences do not count.

Questions are duplicates when statement and answer are the same.

The variant of a task is its generator's choices, the knobs whose value is a word: ``stub`` and ``remove`` of one
function are two exercises. Numbers and flags select or tune candidates and do not count. The first task in the order
of the set stays. MinHash (``similarity``) finds similar differences, so that a large set is not compared in pairs.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ....models import AnswerVerifier, Task
from .exercise import Exercise, Node, added_lines
from .similarity import bands, jaccard, patch_shingles, shingles

MAX_SHARED_TESTS = 0.9
MAX_SHARED_LINES = 0.5
MAX_SIMILAR_STATEMENT = 0.9
MAX_SIMILAR, MAX_SIMILAR_IN_PACKAGE = 0.8, 0.95
MIN_SHINGLES = 40
"""Shingles that a difference must have for its similarity to mean something."""
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
    files: str = ""  # digest of workspace and solution; empty for a task without a patch
    places: frozenset[str] = frozenset()  # the definitions that the solution adds or changes
    statement: frozenset[int] = field(default=frozenset(), repr=False)  # shingles of the statement
    patch: frozenset[int] = field(default=frozenset(), repr=False)  # shingles of the solution's difference


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
        files=hashlib.sha256(f"{task.workspace_patch}\0{task.patch}".encode()).hexdigest() if task.patch else "",
        places=frozenset(f"{piece.path}::{piece.name}" for piece in exercise.pieces),
        statement=shingles(task.problem_statement.split("\n")),
        patch=patch_shingles(task.patch),
    )


def _of_question(task: Task) -> str:
    """Return a digest of a question with its answer, '' for a task that a patch solves."""
    if not isinstance(task.verifier, AnswerVerifier):
        return ""
    return hashlib.sha256(f"{task.problem_statement}\0{task.verifier.answer}".encode()).hexdigest()


def duplicates(fingerprints: Sequence[Fingerprint]) -> dict[str, str]:
    """Return the task_id of each duplicate with the task_id that it repeats; the first of a group stays."""
    unique: list[Fingerprint] = []
    places: defaultdict[object, list[int]] = defaultdict(list)  # tasks of ``unique`` that a key may match
    repeats: dict[str, str] = {}
    for candidate in fingerprints:
        keys = _keys(candidate)
        near = sorted({number for key in keys for number in places.get(key, ())})
        original = next((unique[number] for number in near if same(unique[number], candidate)), None)
        if original is None:
            for key in keys:
                places[key].append(len(unique))
            unique.append(candidate)
        else:
            repeats[candidate.task_id] = original.task_id
    return repeats


def _keys(item: Fingerprint) -> list[object]:
    """Return keys of which two tasks that may be the same exercise share at least one."""
    keys: list[object] = [item.package]
    if item.shape:
        keys.append((item.shape, item.start))
    if len(item.patch) >= MIN_SHINGLES:
        keys += bands(item.patch)
    return keys


def same(one: Fingerprint, other: Fingerprint) -> bool:
    """Return whether two tasks are the same exercise, by the rules of this module."""
    if one.package == other.package and one.files and one.files == other.files:
        return True
    if one.shape and (one.shape, one.start) == (other.shape, other.start):
        return one.package != other.package or one.variant == other.variant
    similar = jaccard(one.patch, other.patch) if min(len(one.patch), len(other.patch)) >= MIN_SHINGLES else 0.0
    if one.package != other.package:
        return similar > MAX_SIMILAR
    if one.variant != other.variant:
        return False
    shared_tests = _share(one.tests, other.tests) > MAX_SHARED_TESTS
    if shared_tests and _share(one.lines, other.lines) > MAX_SHARED_LINES:
        return True
    if shared_tests and one.places and one.places == other.places:
        return jaccard(one.statement, other.statement) > MAX_SIMILAR_STATEMENT
    return similar > MAX_SIMILAR_IN_PACKAGE


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
