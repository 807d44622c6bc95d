"""Private state of a solution's objects does not count: helpers, functions, copies of arguments."""

from __future__ import annotations

import pytest
from helpers.recorded_tasks import HIDDEN, grade_of, task_with, with_record

from etude.environments.snapshots import Snapshot
from etude.models import Grade, Task

HEAD = """import itertools


def largest(values):
    return max(values)


def total(values):
    return sum(values)


"""
EXERCISE = """class Meter:
    def __init__(self, values, unit):
        raise NotImplementedError

    def total(self):
        raise NotImplementedError

    def text(self):
        raise NotImplementedError
"""
OWN = """class Meter:
    def __init__(self, values, unit):
        self.values = values
        self.unit = unit

    def total(self):
        return sum(self.values)

    def text(self):
        return f"{self.total()} {self.unit}"
"""
HIDDEN_TESTS = """import pytest

from tally.core import Meter


@pytest.mark.parametrize("n", range(7))
def test_meter(n):
    meter = Meter([n, 1, 2 * n], "kg")
    assert meter.unit == "kg"
    assert meter.total() == 3 * n + 1
    assert meter.text() == f"{3 * n + 1} kg"
"""
HONEST = {
    "own": OWN,
    "helper": OWN.replace("self.values = values", "self._data = _Data(values)").replace("self.values", "self._data.all")
    + "\n\nclass _Data:\n    def __init__(self, values):\n        self.all = values\n",
    "function": OWN.replace("self.values = values", "self._sum = lambda: sum(values)").replace(
        "sum(self.values)", "self._sum()"
    ),
    "bound method": OWN.replace("= unit", "= unit\n        self._text = ('{} ' + unit).format").replace(
        'f"{self.total()} {self.unit}"', "self._text(self.total())"
    ),
    "iterator": OWN.replace("self.unit = unit", "self.unit = unit\n        self._next = itertools.count()"),
    "copy": OWN.replace("self.values = values", "self.values = values[:]"),
}
ANY = "\n\nclass _Any:\n    def __eq__(self, other):\n        return True\n"
FORGERIES = {
    "attribute that equals everything": OWN.replace("self.unit = unit", "self.unit = _Any()") + ANY,
    "attribute that is left out": OWN.replace("self.unit = unit", "self._unit = unit"),
    "result that equals everything": OWN.replace("return sum(self.values)", "return _Any()") + ANY,
}


@pytest.fixture(scope="module")
def examined(task: Task, snapshot: Snapshot) -> Task:
    """Return a task whose class is examined as a whole, with its record."""
    exercise, solved = (HEAD + EXERCISE).encode(), (HEAD + OWN).encode()
    failing = [f"{HIDDEN}::test_meter[{n}]" for n in range(7)]
    return with_record(task_with(task, snapshot, "tally-meter", exercise, solved, HIDDEN_TESTS, failing), snapshot)


def graded(task: Task, body: str) -> Grade:
    return grade_of(task, HEAD + body)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_class_scores_one(examined: Task, name: str) -> None:
    assert "behaviour" in examined.verifier.components
    result = graded(examined, HONEST[name])
    assert result.failures == [] and result.reward.value == 1.0


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_class_fails_out_of_process(examined: Task, name: str) -> None:
    result = graded(examined, FORGERIES[name])
    assert result.reward.components["behaviour"] == result.reward.value == 0.0
