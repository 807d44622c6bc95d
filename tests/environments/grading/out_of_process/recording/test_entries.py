"""Calls without a form are judged at a public caller; calls whose answers differ in every run, by the test."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from helpers.recorded_tasks import HIDDEN, grade_of, task_with, with_record

from etude.environments.grading.out_of_process.judging.examination import Examination
from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.grading.out_of_process.recording.record import Recording, record
from etude.environments.grading.out_of_process.strength.requirements import too_weak
from etude.environments.grading.own_solution import own_solution
from etude.environments.snapshots import Snapshot
from etude.environments.tasks.task_trees import Materials
from etude.models import Task

STUB = "    raise NotImplementedError\n"
HEADS = {
    "private": "import threading\n\n\nclass _Scan:\n    def __init__(self, values):\n"
    "        self.values, self.lock = values, threading.Lock()\n\n\n"
    "def total(values):\n    return _add(_Scan(values))\n\n\ndef _add(scan):\n",
    "clock": "import time\n\n\ndef total(values):\n",
}
OWN = {"private": "    return sum(scan.values)\n", "clock": "    return sum(values), time.time()\n"}
TESTS = {
    kind: f"import pytest\n\nfrom tally import total\n\n\n@pytest.mark.parametrize('n', range(6))\ndef test_total(n):\n"
    f"    assert total([n, 1]){part} == n + 1\n"
    for kind, part in (("private", ""), ("clock", "[0]"))
}
HONEST = {
    "private": "    result = 0\n    for value in scan.values:\n        result += value\n    return result\n",
    "clock": "    result = 0\n    for value in values:\n        result += value\n    return (result, 0.5)\n",
}
_EQUAL = "    return type('Equal', (int,), {'__eq__': lambda self, other: True, '__hash__': int.__hash__})()\n"
_FRAMES = (
    "    import sys\n    frame = sys._getframe()\n    while frame and 'n' not in frame.f_locals:\n"
    "        frame = frame.f_back\n    result = frame.f_locals['n'] + 1 if frame else 0\n"
)
FORGERIES = {
    "private": {"equal": _EQUAL, "frames": _FRAMES + "    return result\n", "constant": "    return 3\n"},
    "clock": {
        "equal": _EQUAL.replace("return ", "return [").rstrip("\n") + "]\n",
        "frames": _FRAMES + "    return (result, 0.5)\n",
        "constant": "    return (3, 0.5)\n",
    },
}


@pytest.fixture(scope="module", params=HEADS)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def other_task(kind: str, task: Task, snapshot: Snapshot) -> Task:
    """Return the package's task with another function to write, and tests of it."""
    largest = b"def largest(values):\n    return max(values)\n\n\n"
    exercise, solved = (largest + (HEADS[kind] + body).encode() for body in (STUB, OWN[kind]))
    failing = [f"{HIDDEN}::test_total[{n}]" for n in range(6)]
    return task_with(task, snapshot, f"tally-{kind}", exercise, solved, TESTS[kind], failing)


@pytest.fixture(scope="module")
def recording(other_task: Task, snapshot: Snapshot) -> Recording:
    trees = Materials(other_task, snapshot)
    return asyncio.run(record(Examination(other_task, trees), own_solution(other_task, trees)))


@pytest.fixture(scope="module")
def examined(other_task: Task, snapshot: Snapshot) -> Task:
    return with_record(other_task, snapshot, "out_of_process")


def reward(task: Task, kind: str, body: str) -> float:
    return grade_of(task, "def largest(values):\n    return max(values)\n\n\n" + HEADS[kind] + body).reward.value


def test_the_record_is_complete(kind: str, recording: Recording, other_task: Task) -> None:
    assert recording.is_complete, (recording.missing, recording.reasons)
    assert recording.calls is not None and list(recording.calls.tests) == other_task.FAIL_TO_PASS
    assert recording.calls.targets == ["tally.core:_add" if kind == "private" else "tally.core:total"]
    assert recording.calls.entries == (["tally.core:total"] if kind == "private" else [])
    assert {call["target"] for calls in recording.calls.tests.values() for call in calls} == {"tally.core:total"}


def test_an_honest_solution_scores_one(kind: str, examined: Task) -> None:
    assert reward(examined, kind, HONEST[kind]) == reward(examined, kind, OWN[kind]) == 1.0


@pytest.mark.parametrize("name", ["equal", "frames", "constant"])
def test_a_forgery_scores_zero(kind: str, examined: Task, other_task: Task, name: str) -> None:
    assert reward(examined, kind, FORGERIES[kind][name]) == 0.0
    if name == "frames":  # it needs the record
        assert reward(other_task, kind, FORGERIES[kind][name]) == 1.0


def test_an_examined_function_that_never_varies_inside_its_callers_is_a_guess() -> None:
    answers = [{"result": n, "after": None, "error": None, "printed": ""} for n in range(6)]
    calls = [{"target": "m:f", "arguments": [n], "keywords": {}, "answer": one} for n, one in enumerate(answers)]
    recorded = RecordedCalls(["m:_g"], [], ["m"], {"t": calls}, entries=["m:f"])
    assert too_weak(recorded, {"m:_g": {"1"}}) == "every recorded call of m:_g has the same answer"
    assert too_weak(recorded, {"m:_g": {"1", "2"}}) == ""
    idle = RecordedCalls(["m:_g"], [], ["m"], {"t": [{**call, "needs": False} for call in calls]}, entries=["m:f"])
    assert too_weak(idle, {"m:_g": {"1", "2"}}) == "only 0 different calls are recorded"
