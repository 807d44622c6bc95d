"""V5: wrong solutions against the hidden tests, many of them in one sandbox that is reset in between."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from .....environments.grading import grade
from .....environments.sandbox import Change, Sandbox, open_sandbox
from .....environments.snapshots.test_run.placed_files import write_files
from .....environments.snapshots.test_run.test_runner import TestRun, run_tests
from .....environments.tasks.task_trees import Materials
from .....models import Task
from ....engine.warm_batch import WarmBatch
from ....engine.warm_suite import Trial
from ....python.source import Edit, SyntaxSpans, apply_edits, line_span
from ....python.source_tree import read_files
from ...limits import attempt_limit, conclusive
from ..exercise import Exercise, Piece, solved_is_pristine

Contents = Mapping[str, bytes | None]
"""Source files of a solution; None deletes a file."""
BODIES = ("raise NotImplementedError", "return None")
"""Bodies of functions that do nothing."""


@dataclass
class Attempts:
    """An open sandbox with the hidden tests of one task."""

    task: Task  # the task
    sandbox: Sandbox  # shows the grading tree
    limit: float  # seconds of CPU time that one attempt may use
    idle_s: float  # seconds for which one attempt may do nothing

    async def passes(self, files: Contents) -> bool:
        """Return whether FAIL_TO_PASS passes with these files; the run ends at its first failure."""
        await self.sandbox.reset()
        run = await self._run(files)
        return run.complete and set(run.passed) >= set(self.task.FAIL_TO_PASS)

    async def _run(self, files: Contents) -> TestRun:
        await write_files(self.sandbox, files)
        tests, limit = self.task.FAIL_TO_PASS, self.limit
        return conclusive(
            await run_tests(
                self.sandbox, self.task.pytest, tests, timeout_s=limit, idle_s=self.idle_s, first_failure=True
            )
        )


@asynccontextmanager
async def open_attempts(task: Task, trees: Materials, solution: Contents, backend: str) -> AsyncIterator[Attempts]:
    """Open the sandbox, and run the solution once to derive the time limit. Raises SandboxError."""
    sandbox = await open_sandbox(trees.grading_layers, backend=backend)
    try:
        attempts = Attempts(task, sandbox, task.pytest.timeout_s, task.pytest.timeout_s)
        run = await attempts._run(solution)
        attempts.limit = attempt_limit(run, task.pytest.timeout_s)
        attempts.idle_s = max(attempts.limit, run.seconds)  # tests that sleep are as long idle as in the solution
        yield attempts
    finally:
        await sandbox.close()


async def noticed_warm(
    task: Task, trees: Materials, wrong: Sequence[Contents], warm: WarmBatch | None
) -> list[bool | None]:
    """Return whether FAIL_TO_PASS notices each wrong solution, None where a warm run cannot show it.

    A warm run starts from the Snapshot's own tree, so only files that differ from it count.
    """
    changed = [_differing(trees, files) for files in wrong]
    usable = [number for number, files in enumerate(changed) if files is not None]
    if warm is None or not usable or not solved_is_pristine(trees):
        return [None] * len(wrong)
    trials = [Trial(changed[number] or {}, task.FAIL_TO_PASS, first_failure=True) for number in usable]
    results = dict(zip(usable, await warm.run(trials), strict=True))
    return [results[number].noticed if number in results else None for number in range(len(wrong))]


def _differing(trees: Materials, files: Contents) -> dict[str, bytes] | None:
    """Return the files that differ from the Snapshot's; None when one is deleted or is not Python."""
    differing = {
        path: content for path, content in files.items() if read_files(trees.snapshot.tree, [path])[path] != content
    }
    contents = {path: content for path, content in differing.items() if content is not None and path.endswith(".py")}
    return contents if len(contents) == len(differing) else None


async def passing_attempts(
    task: Task,
    trees: Materials,
    solution: Contents,
    wrong: Sequence[Contents],
    backend: str,
    warm: WarmBatch | None = None,
) -> list[bool]:
    """Return whether FAIL_TO_PASS passes with each wrong solution. Raises SandboxError when a sandbox fails.

    One warm run shows it for most of them; a run of its own is made for each of the others.
    """
    noticed = await noticed_warm(task, trees, wrong, warm)
    if None not in noticed:
        return [not item for item in noticed]
    async with open_attempts(task, trees, solution, backend) as attempts:
        return [
            await attempts.passes(files) if item is None else not item
            for files, item in zip(wrong, noticed, strict=True)
        ]


async def rewarded(
    task: Task,
    trees: Materials,
    solution: Contents,
    wrong: Mapping[str, Contents],
    backend: str,
    warm: WarmBatch | None = None,
) -> list[str]:
    """Return the names of the ``wrong`` solutions that score more than 0. Raises GraderError, SandboxError.

    Most of them fail at once on FAIL_TO_PASS; only one that passes it is graded as a whole.
    """
    if not wrong:
        return []
    passes = await passing_attempts(task, trees, solution, list(wrong.values()), backend, warm)
    passing = [name for name, item in zip(wrong, passes, strict=True) if item]
    return [
        name
        for name in passing
        if (await grade(task, as_changes(wrong[name]), backend=backend, snapshot=trees.snapshot)).reward.value != 0.0
    ]


def as_changes(files: Contents) -> list[Change]:
    """Return the files as an agent's diff."""
    return [
        Change(path=path, kind="file" if content is not None else "deleted", size=len(content or b""), content=content)
        for path, content in sorted(files.items())
    ]


def with_trivial_bodies(exercise: Exercise, body: str) -> dict[str, bytes]:
    """Return the solved files in which each function that the solution adds or changes has only ``body``."""
    files = {}
    for path in exercise.after:
        pieces = [piece for piece in exercise.pieces if piece.path == path]
        if pieces:
            files[path] = _with_bodies(exercise.after[path], pieces, body)
    return files


def _with_bodies(source: bytes, pieces: list[Piece], body: str) -> bytes:
    spans, edits = SyntaxSpans(source), list[Edit]()
    functions = [
        node
        for piece in pieces
        for node in ([piece.node] if not isinstance(piece.node, ast.ClassDef) else piece.node.body)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in functions:
        first = min([node.body[0], *getattr(node.body[0], "decorator_list", [])], key=lambda item: item.lineno)
        start, end = spans.span(first)[0], source.find(b"\n", spans.span(node)[1])
        line, text = line_span(source, (start, start))[0], body.encode()
        if not source[line:start].strip(b" \t\f@"):  # not on the line of its def
            start, text = line, spans.indentation(first) + text
        edits.append(((start, end if end >= 0 else len(source)), text))
    return apply_edits(source, edits)


def trivial_solutions(exercise: Exercise) -> dict[str, Contents]:
    """Return the solved files with each trivial body, by body; none where the solution changes no function."""
    wrong = {body: {**exercise.after, **with_trivial_bodies(exercise, body)} for body in BODIES}
    return {body: files for body, files in wrong.items() if files != exercise.after}


async def rewarded_bodies(task: Task, trees: Materials, exercise: Exercise, *, backend: str = "auto") -> list[str]:
    """Return the trivial bodies that score more than 0. Raises GraderError, SandboxError."""
    return await rewarded(task, trees, exercise.after, trivial_solutions(exercise), backend)
