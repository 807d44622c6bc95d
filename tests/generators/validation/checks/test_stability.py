"""The flake audit: tests that pass or fail by chance are found in many runs, with and without the solution."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from helpers.light_checks import LIGHT
from helpers.small_tasks import make_task, write_project

from etude.environments.sandbox import Layers, Sandbox, open_sandbox
from etude.environments.snapshots import build_snapshot
from etude.environments.tasks.task_trees import Materials
from etude.errors import SandboxError
from etude.generators.generate import generate
from etude.generators.validation.checks import stability
from etude.generators.validation.checks.stability import SnapshotRuns, described, unstable
from etude.models import Task

SOURCE = '''
def double(number):
    """Return twice the number."""
    if not number:
        return 0
    return number * 2


def other():
    """Return one."""
    return 1
'''
STUB = SOURCE.replace("    if not number:\n        return 0\n    return number * 2", "    raise NotImplementedError")
SEED = 'import os\n\nSEED = int(os.environ.get("PYTHONHASHSEED") or 0)\n'
# Fails with the solution in the sixth run, as a test that depends on the order of a set may.
FLAKY = f"{SEED}from twice import double\n\n\ndef test_double():\n    assert double(2) == 4 and SEED != 5\n"
# Passes without a solution in the fifth run.
LUCKY = f"{SEED}from twice import double\n\n\ndef test_double():\n    assert SEED == 4 or double(2) == 4\n"
OTHER = "from twice import other\n\n\ndef test_other():\n    assert other() == 1\n"


def project(folder: Path, test: str) -> tuple[Path, dict[str, str | bytes]]:
    files: dict[str, str | bytes] = {
        "src/twice.py": SOURCE,
        "tests/test_double.py": test,
        "tests/test_other.py": OTHER,
    }
    return write_project(folder / "twice", files), files


KINDS = [(FLAKY, "passed, passed, passed, passed, passed, failed"), (LUCKY, "without a solution ")]


def flaky_task(folder: Path, test: str) -> tuple[Task, Materials]:
    source, files = project(folder, test)
    snapshot = build_snapshot(str(source))
    task = make_task(snapshot, files, {"src/twice.py": STUB}, "tests/test_double.py", ["test_double"])
    return task, Materials(task, snapshot)


@pytest.mark.parametrize(("test", "outcome"), KINDS)
def test_a_flaky_test_is_found_in_enough_runs(tmp_path: Path, test: str, outcome: str) -> None:
    task, trees = flaky_task(tmp_path, test)
    assert asyncio.run(unstable(task, trees, runs=3)) == {}
    flaky = asyncio.run(unstable(task, trees, runs=6))
    assert list(flaky) == ["tests/test_double.py::test_double"] and outcome in described(flaky)


@pytest.mark.parametrize(("test", "outcome"), KINDS)
def test_tasks_share_the_runs_of_the_tree_of_their_snapshot(
    tmp_path: Path, test: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, trees = flaky_task(tmp_path, test)
    opened: list[Path] = []

    async def counted(layers: Layers, **options: Any) -> Sandbox:
        opened.append(layers.workspace)
        return await open_sandbox(layers, **options)

    monkeypatch.setattr(stability, "open_sandbox", counted)

    async def together() -> list[dict[str, str]]:
        shared = SnapshotRuns(6)
        return await asyncio.gather(*(unstable(task, trees, runs=6, shared=shared) for _ in range(2)))

    first, second = asyncio.run(together())
    assert first == second and outcome in described(first)
    assert opened.count(trees.snapshot.tree) == 1 and set(opened) <= {trees.snapshot.tree, trees.grading_tree}


def test_a_failure_of_the_machine_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, trees = flaky_task(tmp_path, FLAKY)
    shared, failures = SnapshotRuns(1), [SandboxError("no room")]

    async def failing_once(layers: Layers, **options: Any) -> Sandbox:
        if failures:
            raise failures.pop()
        return await open_sandbox(layers, **options)

    monkeypatch.setattr(stability, "open_sandbox", failing_once)

    async def twice() -> dict[str, str]:
        with pytest.raises(SandboxError):
            await unstable(task, trees, runs=1, shared=shared)
        return await unstable(task, trees, runs=1, shared=shared)

    assert asyncio.run(twice()) == {}


def test_a_flaky_candidate_is_rejected_when_reruns_are_asked_for(tmp_path: Path) -> None:
    source, _ = project(tmp_path, FLAKY)
    arguments = {"generators": ["fd_function"], "count": 1, "seed": 1}
    knobs = {"min_lines": 3, **LIGHT}
    once = generate([str(source)], out=tmp_path / "once", knobs=knobs, **arguments)
    assert once.tasks == 1
    report = generate([str(source)], out=tmp_path / "often", knobs={**knobs, "reruns": 10}, **arguments)
    assert report.rejected == {"v10_flaky": 1}
