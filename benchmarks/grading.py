"""The cost of a fresh grade over plain pytest: medians of one run, on the same tests in the same kind of sandbox.

``python benchmarks/grading.py DIR [--rounds N] [--json]``: DIR is a task set. A grade opens a fresh sandbox, writes the
solution, runs every expected test and judges; plain pytest runs the same ids in an open sandbox.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

from etude.benchmarks.output import parser_of, show
from etude.environments.grading import grade
from etude.environments.sandbox import Change, open_sandbox
from etude.environments.snapshots import open_snapshot
from etude.environments.tasks.task_set import TaskSet
from etude.environments.tasks.task_trees import materials
from etude.models import Task


async def solution_of(task: Task) -> list[Change]:
    """Return the solution of the task as an agent's diff."""
    sandbox = await open_sandbox(materials(task).agent_layers)
    try:
        await sandbox.write("/tmp/patch", task.patch.encode())
        assert (await sandbox.exec("git apply /tmp/patch")).exit_code == 0
        return await sandbox.changes()
    finally:
        await sandbox.close()


async def plain_pytest(task: Task) -> float:
    """Return the milliseconds of ``python -m pytest`` on the expected ids in an open sandbox with the solution."""
    sandbox = await open_sandbox(materials(task).grading_layers)
    try:
        await sandbox.write("/tmp/patch", task.patch.encode())
        assert (await sandbox.exec("git apply /tmp/patch")).exit_code == 0
        # In a file: thousands of ids are too long for a command line.
        await sandbox.write("/tmp/ids", "\n".join([*task.FAIL_TO_PASS, *task.PASS_TO_PASS]).encode())
        started = time.perf_counter()
        result = await sandbox.exec(["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "@/tmp/ids"])
        elapsed = (time.perf_counter() - started) * 1e3
        assert result.exit_code == 0, result.output[-2000:].decode("utf-8", "replace")
        return elapsed
    finally:
        await sandbox.close()


async def measure(task: Task, rounds: int) -> dict[str, float]:
    """Return the medians of grading and of plain pytest, and their difference, in milliseconds."""
    assert task.snapshot is not None
    snapshot = open_snapshot(task.snapshot)
    solution = await solution_of(task)
    graded, plain = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        result = await grade(task, solution, snapshot=snapshot)
        graded.append((time.perf_counter() - started) * 1e3)
        assert result.reward.value == 1.0
        plain.append(await plain_pytest(task))
    medians = {"grade_ms": statistics.median(graded), "plain_pytest_ms": statistics.median(plain)}
    return {**medians, "over_ms": medians["grade_ms"] - medians["plain_pytest_ms"]}


def main() -> None:
    """Run the benchmark."""
    parser = parser_of(__doc__, rounds=15)
    parser.add_argument("tasks", type=Path)
    arguments = parser.parse_args()
    # The first task of every repository.
    tasks = list({task.repo: task for task in reversed(list(TaskSet.load(arguments.tasks)))}.values())
    medians = {task.task_id: asyncio.run(measure(task, arguments.rounds)) for task in tasks}
    show(
        medians,
        arguments.json,
        lambda name, row: f"{name:60}" + "".join(f"  {key} {value:.0f}" for key, value in row.items()),
    )


if __name__ == "__main__":
    main()
