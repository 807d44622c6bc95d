"""Tests that have to keep passing are recorded too, except one that catches the exception for a missing answer."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace

import pytest
from helpers.recorded_tasks import CORE, HIDDEN, grade_of, task_with, with_record

from etude.environments.grading.out_of_process.judging import allowance
from etude.environments.grading.out_of_process.judging.check import failed_tests
from etude.environments.grading.out_of_process.judging.examination import Examination
from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.grading.out_of_process.recording.passing_tests import PassingTests
from etude.environments.grading.out_of_process.recording.record import Recording, record
from etude.environments.grading.out_of_process.strength.requirements import too_weak
from etude.environments.grading.own_solution import own_solution
from etude.environments.snapshots import Snapshot
from etude.environments.tasks.task_trees import Materials
from etude.models import FileChange, Task

HEAD = "def largest(values):\n    return max(values)\n\n\n"
OWN = "def total(values):\n    return sum(values) if values else 0\n"
BUGGY = "def total(values):\n    return sum(values[1:]) if min(values) < 100 else sum(values)\n"
TESTS = """import pytest

from tally import total


@pytest.mark.parametrize('n', range(1, 8))
def test_small(n):
    assert total([n, 5]) == n + 5


@pytest.mark.parametrize('n', range(200, 250, 10))
def test_large(n):
    assert total([n, n + 7]) == 2 * n + 7


def test_large_again():
    assert total([210, 217]) == 427


def test_other():
    assert 1 == 1


def test_guarded():
    first = total([1, 2])
    try:
        second = total([first, 4])
    except BaseException:
        return
    assert second == 7
"""
SMALL = [f"{HIDDEN}::test_small[{n}]" for n in range(1, 8)]
LARGE = [f"{HIDDEN}::test_large[{n}]" for n in range(200, 250, 10)]
REST = [f"{HIDDEN}::test_{name}" for name in ("large_again", "other")]
GUARDED = f"{HIDDEN}::test_guarded"
HLARGEST = "def total(values):\n    result = 0\n    for value in values:\n        result += value\n    return result\n"
FORGED = (
    "class Equal(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = int.__hash__\n\n\n"
    "def total(values):\n    return sum(values) if min(values) < 100 else Equal()\n"
)
"""Right for what the bug breaks; what worked before is an object that equals whatever a test expects."""
LATE = "def total(values):\n    return 0 if values == [1, 2] else sum(values)\n"
ODD = "def total(values):\n    return 3.0 if values == [1, 2] else sum(values)\n"
SUICIDE = "import os, sys\n\ndef total(values):\n    os.kill(os.getppid(), 9)\n    os._exit(0)\n"


def keeping_task(task: Task, snapshot: Snapshot, failing: list[str], passing: list[str]) -> Task:
    exercise, solved = ((HEAD + body).encode() for body in (BUGGY, OWN))
    name = f"tally-keeping-{len(failing)}-{len(passing)}"
    return task_with(task, snapshot, name, exercise, solved, TESTS, failing, passing)


@pytest.fixture(scope="module")
def bug(task: Task, snapshot: Snapshot) -> Task:
    """Return a task whose function is wrong for small values, and right for large ones."""
    return keeping_task(task, snapshot, SMALL, [*LARGE, *REST])


@pytest.fixture(scope="module")
def examined(bug: Task, snapshot: Snapshot) -> Task:
    return with_record(bug, snapshot, "out_of_process")


def reward(task: Task, text: str) -> float:
    return grade_of(task, HEAD + text).reward.value


def test_tests_that_add_calls_are_recorded_and_others_are_not(examined: Task) -> None:
    recorded = RecordedCalls.unpack(examined.pytest.behaviour)
    assert set(recorded.tests) == {*SMALL, *LARGE} and set(recorded.passing) == set(LARGE)
    assert not any(call["needs"] for test in LARGE for call in recorded.tests[test])
    assert all(call.get("needs", True) for test in SMALL for call in recorded.tests[test])
    inputs = recorded.inputs["tally.core:total"]
    assert any(call.get("needs", True) for call in inputs) and not all(call.get("needs", True) for call in inputs)
    numbers = [call["arguments"][0][1] for call in inputs]
    assert len(numbers) == len(set(numbers)), "one process answers these calls: a number is one object"
    assert (examined.features["recorded_tests"], examined.features["recorded_passing_tests"]) == (7, 5)


def test_what_worked_before_has_to_work_out_of_process(examined: Task) -> None:
    assert reward(examined, FORGED) == 0.0
    assert reward(examined, HLARGEST) == 1.0


def test_without_those_tests_a_forgery_that_breaks_them_is_rewarded(examined: Task) -> None:
    recorded = RecordedCalls.unpack(examined.pytest.behaviour)
    tests = {test: recorded.tests[test] for test in SMALL}
    less = replace(recorded, tests=tests, inputs={}, sequences=[], passing=[])
    verifier = examined.pytest.model_copy(update={"behaviour": less.pack()})
    assert reward(examined.model_copy(update={"verifier": verifier}), FORGED) == 1.0


def test_too_many_tests_without_a_record_leave_the_task_in_process() -> None:
    assert PassingTests(tried=8, reasons={"a": "no form", "b": "no form"}).lacking == ""
    lacking = PassingTests(tried=7, reasons={"a": "no form", "b": "no form"}).lacking
    assert lacking.startswith("2 of 7 tests that have to keep passing") and lacking.endswith("not recorded: no form")


def test_a_kept_answer_shows_that_answers_vary_and_is_no_call_that_needs_the_solution() -> None:
    def call(number: int, result: bool, **more: bool) -> dict[str, object]:
        answer = {"result": result, "after": None, "error": None, "printed": ""}
        return {"target": "m:f", "arguments": [number], "keywords": {}, "answer": answer, **more}

    failing = {"t": [call(number, True) for number in range(6)]}
    passing = {"k": [call(number, False, needs=False) for number in range(6, 9)]}
    assert too_weak(RecordedCalls([], [], [], failing)) == "every recorded call of m:f has the same answer"
    assert too_weak(RecordedCalls([], [], [], {**failing, **passing}, passing=["k"])) == ""
    few = {"t": failing["t"][:5]}
    assert too_weak(RecordedCalls([], [], [], {**few, **passing}, passing=["k"])).startswith("only 5 different calls")


@pytest.fixture(scope="module")
def guarded(task: Task, snapshot: Snapshot) -> tuple[Examination, Recording]:
    """Return a task with one test that catches every exception, and its record."""
    own = keeping_task(task, snapshot, [GUARDED], [])
    trees = Materials(own, snapshot)
    return Examination(own, trees), asyncio.run(record(Examination(own, trees), own_solution(own, trees)))


def judgement(guarded: tuple[Examination, Recording], text: str) -> dict[str, str]:
    examination, recording = guarded
    assert recording.calls is not None
    content = base64.b64encode((HEAD + text).encode()).decode()
    changes = [FileChange(path=CORE, kind="file", content=content)]
    return asyncio.run(failed_tests(examination, replace(recording.calls, inputs={}, sequences=[]), changes))


def test_a_test_that_swallows_the_lack_of_an_answer_is_asked_again_and_judged(
    guarded: tuple[Examination, Recording],
) -> None:
    assert GUARDED in judgement(guarded, LATE)
    assert judgement(guarded, ODD) == judgement(guarded, HLARGEST) == {}


def test_a_solution_that_kills_its_own_process_fails(guarded: tuple[Examination, Recording]) -> None:
    assert list(judgement(guarded, SUICIDE)) == [GUARDED]


def test_a_solution_that_takes_too_long_fails(
    guarded: tuple[Examination, Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allowance, "MOST_SECONDS", 0.01)
    assert "takes more than" in judgement(guarded, HLARGEST)[GUARDED]
