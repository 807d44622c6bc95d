"""V5 from a row alone: the solution's own definitions with bodies that do nothing must score 0."""

from __future__ import annotations

import ast

from ....environments.tasks.task_trees import Materials
from ....models import Task
from .attempts import rewarded
from .exercise import Exercise, Piece

BODIES = ("raise NotImplementedError", "return None")


def with_trivial_bodies(exercise: Exercise, body: str) -> dict[str, bytes]:
    """Return the solved files in which each function that the solution adds or changes has only ``body``."""
    files = {}
    for path in exercise.after:
        pieces = [piece for piece in exercise.pieces if piece.path == path]
        if pieces:
            files[path] = _with_bodies(exercise.after[path], pieces, body)
    return files


def _with_bodies(source: bytes, pieces: list[Piece], body: str) -> bytes:
    lines = source.split(b"\n")
    functions = [
        node
        for piece in pieces
        for node in ([piece.node] if not isinstance(piece.node, ast.ClassDef) else piece.node.body)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in sorted(functions, key=lambda node: node.lineno, reverse=True):
        first, last = node.body[0], node.end_lineno or node.lineno
        if first.lineno == node.lineno:  # all on the line of its def
            lines[first.lineno - 1 : last] = [lines[first.lineno - 1][: first.col_offset] + body.encode()]
            continue
        lines[first.lineno - 1 : last] = [b" " * first.col_offset + body.encode()]
    return b"\n".join(lines)


async def rewarded_bodies(task: Task, trees: Materials, exercise: Exercise, *, backend: str = "auto") -> list[str]:
    """Return the trivial bodies that score more than 0. Raises GraderError, SandboxError."""
    wrong = {body: {**exercise.after, **with_trivial_bodies(exercise, body)} for body in BODIES}
    return await rewarded(task, trees, exercise.after, wrong, backend)
