"""The flake audit: solution and workspace give the same verdict every time, in two orders and with other hash seeds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....environments.sandbox import Sandbox, open_sandbox
from ....environments.snapshots import scratch_tree
from ....environments.snapshots.test_run.test_runner import Order, TestRun, run_tests
from ....environments.tasks.task_trees import Materials
from ....models import Task
from ..limits import conclusive
from .exercise import solved_is_pristine

RUNS: tuple[tuple[Order, int], ...] = (("given", 0), ("reversed", 0), ("given", 1))
"""Order and hash seed of each run; further runs have other seeds, and every second one is reversed."""


@dataclass
class SnapshotRuns:
    """Repeated runs of the suite on the trees of Snapshots. The state is the runs of each, by digest and verifier.

    The solved tree of most tasks is the Snapshot's own, so that tasks of one Snapshot share these runs.
    """

    runs: int = len(RUNS)
    """Number of runs of each Snapshot."""
    backend: str = "auto"
    """The sandbox backend."""
    _by_suite: dict[str, asyncio.Task[dict[str, list[str]]]] = field(default_factory=dict, repr=False)

    async def solved(self, task: Task, trees: Materials) -> dict[str, list[str]] | None:
        """Return the outcomes of each expected test, None where the Snapshot's own runs do not show them.

        Raises SandboxError, and OutOfTime when a limit ended a run on an overloaded machine.
        """
        tests = trees.snapshot.baseline.passed
        expected = [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]
        if not set(expected) <= set(tests) or not solved_is_pristine(trees):
            return None
        suite = f"{trees.snapshot.digest} {task.pytest.model_dump_json()}"
        if suite not in self._by_suite:
            work = _outcomes(task, trees, trees.snapshot.tree, tests, self.runs, self.backend)
            self._by_suite[suite] = asyncio.create_task(work)
        try:
            outcomes = await self._by_suite[suite]
        except BaseException:
            self._by_suite.pop(suite, None)  # the next task tries again
            raise
        return {test: outcomes[test] for test in expected}


async def unstable(
    task: Task,
    trees: Materials,
    *,
    runs: int = len(RUNS),
    backend: str = "auto",
    shared: SnapshotRuns | None = None,
) -> dict[str, str]:
    """Return the expected tests whose outcomes are not right in each of ``runs`` runs, with these outcomes.

    With the solution, all must pass; ``shared`` has these runs for tasks whose solved tree is the Snapshot's. Without
    it, no test of FAIL_TO_PASS may pass, and the others must give the same outcome every time. Each run starts from a
    clean layer. Raises SandboxError, PatchError, OutOfTime.
    """
    tests = [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]
    solved = await shared.solved(task, trees) if shared else None
    if solved is None:
        with scratch_tree(trees.snapshot, task.workspace_patch, task.test_patch, task.patch) as tree:
            solved = await _outcomes(task, trees, tree, tests, runs, backend)
    flaky = {test: ", ".join(words) for test, words in solved.items() if set(words) != {"passed"}}
    if flaky:
        return flaky
    unsolved = await _outcomes(task, trees, trees.grading_tree, tests, runs, backend)
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


async def _outcomes(
    task: Task, trees: Materials, tree: Path, tests: Sequence[str], runs: int, backend: str
) -> dict[str, list[str]]:
    """Return the outcomes of each of ``tests`` in ``runs`` runs on a tree, run as the task's verifier says."""
    outcomes: dict[str, list[str]] = {test: [] for test in tests}
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
