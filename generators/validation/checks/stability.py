"""The flake audit: the solved tree gives the same verdict every time, in another order and with other hashes."""

from __future__ import annotations

from typing import Literal

from ....environments.sandbox import Sandbox, open_sandbox
from ....environments.snapshots import scratch_tree
from ....environments.snapshots.test_run.test_runner import TestRun, run_tests
from ....environments.tasks.task_trees import Materials
from ....models import Task

RUNS: tuple[tuple[Literal["given", "reversed"], int], ...] = (("given", 0), ("reversed", 0), ("given", 1))
"""Order and hash seed; more runs go on with other seeds, every second one reversed."""


async def unstable(task: Task, made: Materials, *, runs: int = len(RUNS), backend: str = "auto") -> dict[str, str]:
    """Expected tests that do not pass in each of ``runs`` runs of the solution, with what they did instead.

    Each run starts from a clean layer. Raises SandboxError, PatchError.
    """
    told: dict[str, list[str]] = {test: [] for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]}
    with scratch_tree(made.snapshot, task.workspace_patch, task.test_patch, task.patch) as tree:
        sandbox = await open_sandbox(made.snapshot.layers(tree), backend=backend)
        try:
            for number in range(runs):
                run = await _run(sandbox, task, list(told), number)
                for test, words in told.items():
                    words.append(_word(run, test))
        finally:
            await sandbox.close()
    return {test: ", ".join(words) for test, words in told.items() if set(words) != {"passed"}}


async def _run(sandbox: Sandbox, task: Task, tests: list[str], number: int) -> TestRun:
    order, seed = RUNS[number] if number < len(RUNS) else (RUNS[number % 2][0], number)
    if number:
        await sandbox.reset()
    return await run_tests(sandbox, task.pytest, tests, order=order, hash_seed=seed)


def _word(run: TestRun, test: str) -> str:
    outcome = run.outcomes.get(test)
    return outcome.outcome if outcome else run.cause or "missing"
