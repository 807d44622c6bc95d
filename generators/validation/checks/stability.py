"""The flake audit: the solved tree gives the same verdict every time, in another order and with other hash seeds."""

from __future__ import annotations

from typing import Literal

from ....environments.sandbox import Sandbox, open_sandbox
from ....environments.snapshots import scratch_tree
from ....environments.snapshots.test_run.test_runner import TestRun, run_tests
from ....environments.tasks.task_trees import Materials
from ....models import Task
from ..limits import conclusive

RUNS: tuple[tuple[Literal["given", "reversed"], int], ...] = (("given", 0), ("reversed", 0), ("given", 1))
"""Order and hash seed of each run; further runs have other seeds, and every second one is reversed."""


async def unstable(task: Task, trees: Materials, *, runs: int = len(RUNS), backend: str = "auto") -> dict[str, str]:
    """Return the expected tests that do not pass in each of ``runs`` runs of the solution, with their outcomes.

    Each run starts from a clean layer. Raises SandboxError, PatchError.
    """
    outcomes: dict[str, list[str]] = {test: [] for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]}
    with scratch_tree(trees.snapshot, task.workspace_patch, task.test_patch, task.patch) as tree:
        sandbox = await open_sandbox(trees.snapshot.layers(tree), backend=backend)
        try:
            for number in range(runs):
                run = await _run(sandbox, task, list(outcomes), number)
                for test, words in outcomes.items():
                    outcome = run.outcomes.get(test)
                    words.append(outcome.outcome if outcome else run.cause or "missing")
        finally:
            await sandbox.close()
    return {test: ", ".join(words) for test, words in outcomes.items() if set(words) != {"passed"}}


async def _run(sandbox: Sandbox, task: Task, tests: list[str], number: int) -> TestRun:
    order, seed = RUNS[number] if number < len(RUNS) else (RUNS[number % 2][0], number)
    if number:
        await sandbox.reset()
    return conclusive(await run_tests(sandbox, task.pytest, tests, order=order, hash_seed=seed))
