"""V5 from a row alone: the solution's own definitions with bodies that answer nothing must score 0."""

from __future__ import annotations

import ast

from ....environments.grading import grade
from ....environments.sandbox import Change
from ....environments.tasks.task_trees import Materials
from ....models import Task
from .attempts import attempts
from .removed import Exercise, Piece

BODIES = ("raise NotImplementedError", "return None")


def stubbed(exercise: Exercise, body: str) -> dict[str, bytes]:
    """The solved files, each function that the solution adds or changes reduced to ``body``."""
    found = {}
    for path in exercise.after:
        pieces = [piece for piece in exercise.pieces if piece.path == path]
        if pieces:
            found[path] = _with_bodies(exercise.after[path], pieces, body)
    return found


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


async def survivors(task: Task, made: Materials, exercise: Exercise, *, backend: str = "auto") -> list[str]:
    """The bodies that score more than 0. Raises GraderError, SandboxError.

    Most fail at once on FAIL_TO_PASS; only what gets past it is worth the whole grade.
    """
    found = []
    async with attempts(task, made, exercise.after, backend) as tried:
        for body in BODIES:
            files = {**exercise.after, **stubbed(exercise, body)}
            if await tried.passes(files):
                changes = [
                    Change(path=path, kind="file", size=len(content), content=content)
                    for path, content in sorted(files.items())
                ]
                if (await grade(task, changes, backend=backend, snapshot=made.snapshot)).reward.value != 0.0:
                    found.append(body)
    return found
