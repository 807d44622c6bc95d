"""Tasks of the package ``tally`` with other functions to write, their records, and grades of solutions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from etude.environments.grading import grade
from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.sandbox import Change
from etude.environments.snapshots import Snapshot, make_patch
from etude.environments.tasks.task_trees import Materials
from etude.generators.validation.checks.behaviour import with_behaviour
from etude.models import Grade, Task

CORE, HIDDEN = "src/tally/core.py", "tests/test_hidden.py"


def task_with(
    task: Task,
    snapshot: Snapshot,
    name: str,
    exercise: bytes,
    solved: bytes,
    tests: str,
    failing: Sequence[str],
    passing: Sequence[str] = (),
) -> Task:
    """Return a task with this name, whose solution writes ``solved`` over ``exercise``; ``tests`` are hidden.

    ``failing`` and ``passing`` are the ids of its FAIL_TO_PASS and PASS_TO_PASS tests.
    """
    core, old = (snapshot.tree / CORE).read_bytes(), (snapshot.tree / HIDDEN).read_bytes()
    return task.model_copy(
        update={
            "task_id": name,
            "instance_id": name,
            "patch": make_patch({CORE: exercise}, {CORE: solved}),
            "workspace_patch": make_patch({CORE: core, HIDDEN: old}, {CORE: exercise, HIDDEN: None}),
            "test_patch": make_patch({HIDDEN: None}, {HIDDEN: tests.encode()}),
            "FAIL_TO_PASS": list(failing),
            "PASS_TO_PASS": list(passing),
        }
    )


def with_record(task: Task, snapshot: Snapshot, least: Literal["in_process", "out_of_process"] = "in_process") -> Task:
    """Return a task with the record of its calls and with the assurance that it gives, which is ``least`` or more."""
    return asyncio.run(with_behaviour(task, Materials(task, snapshot), least, "auto"))


def without_held_out(task: Task) -> Task:
    """Return a recorded task without held-out calls, so that the calls of its tests alone decide."""
    bare = replace(RecordedCalls.unpack(task.pytest.behaviour), inputs={}, sequences=[])
    return task.model_copy(update={"verifier": task.pytest.model_copy(update={"behaviour": bare.pack()})})


def grade_of(task: Task, core: str | bytes) -> Grade:
    """Return the grade of a solution that writes this text into CORE."""
    content = core if isinstance(core, bytes) else core.encode()
    return asyncio.run(grade(task, [Change(path=CORE, kind="file", size=len(content), content=content)]))
