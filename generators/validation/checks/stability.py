"""The flake audit: solution and workspace give the same verdict every time, in two orders and with other hash seeds."""

from __future__ import annotations

from pathlib import Path
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
    """Return the expected tests whose outcomes are not right in each of ``runs`` runs, with these outcomes.

    With the solution, all must pass. Without it, no test of FAIL_TO_PASS may pass, and the others must give the same
    outcome every time. Each run starts from a clean layer. Raises SandboxError, PatchError.
    """
    with scratch_tree(trees.snapshot, task.workspace_patch, task.test_patch, task.patch) as tree:
        solved = await _outcomes(task, trees, tree, runs, backend)
    flaky = {test: ", ".join(words) for test, words in solved.items() if set(words) != {"passed"}}
    if flaky:
        return flaky
    unsolved = await _outcomes(task, trees, trees.grading_tree, runs, backend)
    must_fail = set(task.FAIL_TO_PASS)
    return {
        test: f"without a solution {', '.join(words)}"
        for test, words in unsolved.items()
        if ("passed" in words if test in must_fail else len(set(words)) > 1)
    }


def described(tests: dict[str, str]) -> str:
    """Return the first of the tests with its outcomes, and the number of the others; '' for none."""
    more = f" (and {len(tests) - 1} more tests)" if len(tests) > 1 else ""
    return "".join(f"{test}: {outcomes}{more}" for test, outcomes in list(tests.items())[:1])


async def _outcomes(task: Task, trees: Materials, tree: Path, runs: int, backend: str) -> dict[str, list[str]]:
    """Return the outcomes of each expected test in ``runs`` runs on a tree."""
    outcomes: dict[str, list[str]] = {test: [] for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]}
    sandbox = await open_sandbox(trees.snapshot.layers(tree), backend=backend)
    try:
        for number in range(runs):
            run = await _run(sandbox, task, list(outcomes), number)
            for test, words in outcomes.items():
                outcome = run.outcomes.get(test)
                words.append(outcome.outcome if outcome else run.cause or "missing")
    finally:
        await sandbox.close()
    return outcomes


async def _run(sandbox: Sandbox, task: Task, tests: list[str], number: int) -> TestRun:
    order, seed = RUNS[number] if number < len(RUNS) else (RUNS[number % 2][0], number)
    if number:
        await sandbox.reset()
    return conclusive(await run_tests(sandbox, task.pytest, tests, order=order, hash_seed=seed))
