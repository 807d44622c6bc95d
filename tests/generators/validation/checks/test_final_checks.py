"""A task that does not accept its own solution, or accepts doing nothing, is not published."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from helpers.deleted_total import package, snapshot_of, task_of

from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.snapshots import Snapshot
from etude.environments.tasks.task_trees import Materials
from etude.errors import Rejected
from etude.generators.validation.checks.behaviour import with_behaviour
from etude.generators.validation.checks.final_checks import accepts_its_solution
from etude.models import Task

HIDDEN = """from tally import total


def test_total():
    assert total([1, 2]) == 3
    assert total([7]) == 7


def test_total_of_nothing():
    assert total([]) == 0


class TestTotal:
    def test_many(self):
        assert [total([4, 5, 6]), total([1, 2, 3, 4]), total([20, 30])] == [15, 10, 50]
"""
VISIBLE = "from tally import largest\n\n\ndef test_largest():\n    assert largest([1, 2]) == 2\n"
FILES = package("tally", HIDDEN, VISIBLE)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return snapshot_of(tmp_path_factory.mktemp("source") / "tally", FILES)


@pytest.fixture(scope="module")
def task(snapshot: Snapshot) -> Task:
    return task_of(snapshot, "tally", FILES, "Write tally.total again: it adds up the values.", ["test_largest"])


@pytest.fixture(scope="module")
def recorded(task: Task, snapshot: Snapshot) -> Task:
    return asyncio.run(with_behaviour(task, Materials(task, snapshot), "in_process", "auto"))


def judge(task: Task, snapshot: Snapshot) -> None:
    asyncio.run(accepts_its_solution(task, Materials(task, snapshot), "auto"))


def with_other_answers(task: Task) -> Task:
    """Return the task with other answers to its held-out calls."""
    calls = RecordedCalls.unpack(task.pytest.behaviour)
    assert calls.inputs and "behaviour" in task.verifier.components
    inputs = {
        target: [{**call, "answer": {**call["answer"], "result": "other"}} for call in held_out]
        for target, held_out in calls.inputs.items()
    }
    record = replace(calls, inputs=inputs).pack()
    return task.model_copy(update={"verifier": task.pytest.model_copy(update={"behaviour": record})})


def test_a_task_whose_record_fits_its_solution_is_accepted(recorded: Task, snapshot: Snapshot) -> None:
    judge(recorded, snapshot)


def test_a_task_whose_record_rejects_its_solution_is_rejected(recorded: Task, snapshot: Snapshot) -> None:
    with pytest.raises(Rejected, match="own solution scores 0 for behaviour"):
        judge(with_other_answers(recorded), snapshot)


def test_a_task_that_pays_for_nothing_is_rejected(task: Task, snapshot: Snapshot) -> None:
    passing = task.model_copy(update={"FAIL_TO_PASS": task.PASS_TO_PASS[:1], "PASS_TO_PASS": []})
    with pytest.raises(Rejected, match="doing nothing scores 1"):
        judge(passing, snapshot)
