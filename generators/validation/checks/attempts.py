"""Wrong solutions against the hidden tests: many of them, in one sandbox that is reset in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ....environments.sandbox import WORKSPACE, Sandbox, open_sandbox
from ....environments.snapshots.test_run.test_runner import TestRun, run_tests
from ....environments.tasks.task_trees import Materials
from ....models import Task

PATIENCE_S, PATIENCE = 2.0, 3.0
"""An attempt may take so many seconds, plus so many times what the solution takes."""


@dataclass
class Attempts:
    """``limit`` is what one attempt may take, in seconds."""

    task: Task
    sandbox: Sandbox
    limit: float

    async def passes(self, files: Mapping[str, bytes | None]) -> bool:
        """Whether FAIL_TO_PASS passes with these files; the run ends at its first failure."""
        await self.sandbox.reset()
        run = await self._run(files)
        return run.complete and set(run.passed) >= set(self.task.FAIL_TO_PASS)

    async def _run(self, files: Mapping[str, bytes | None]) -> TestRun:
        for path, content in files.items():
            if content is None:
                await self.sandbox.exec(["rm", "-f", "--", path])
            else:
                await self.sandbox.write(f"{WORKSPACE}/{path}", content)
        return await run_tests(
            self.sandbox, self.task.pytest, self.task.FAIL_TO_PASS, timeout_s=self.limit, first_failure=True
        )


@asynccontextmanager
async def attempts(
    task: Task, made: Materials, solution: Mapping[str, bytes | None], backend: str
) -> AsyncIterator[Attempts]:
    """Runs the solution once, to know how long one takes. Raises SandboxError."""
    sandbox = await open_sandbox(made.grading_layers, backend=backend)
    try:
        tried = Attempts(task, sandbox, task.pytest.timeout_s)
        seconds = (await tried._run(solution)).seconds
        tried.limit = min(task.pytest.timeout_s, PATIENCE_S + PATIENCE * seconds)
        yield tried
    finally:
        await sandbox.close()
