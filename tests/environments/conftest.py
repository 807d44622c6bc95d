"""A small real package, its Snapshot (cached between runs) and one task made from it by hand."""

from __future__ import annotations

import pytest
from helpers.deleted_total import package, snapshot_of, task_of

from etude.environments.snapshots import Snapshot
from etude.environments.tasks.task_set import TaskSet
from etude.models import Task

VISIBLE = """import pytest

from tally import largest


@pytest.mark.parametrize("values", [[1, 2], [2, 1]])
def test_largest(values):
    assert largest(values) == 2


def test_largest_of_nothing():
    with pytest.raises(ValueError):
        largest([])
"""
HIDDEN = """import unittest

import pytest

from tally import total


@pytest.fixture
def three():
    return total([1, 2])


def test_total(three):
    assert three == 3


def test_total_of_nothing():
    assert total([]) == 0


class TestTotal(unittest.TestCase):
    def test_many(self):
        self.assertEqual(total(range(10)), 45)
"""
FILES = package("tally", HIDDEN, VISIBLE)


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return snapshot_of(tmp_path_factory.mktemp("source") / "tally", FILES)


@pytest.fixture(scope="session")
def task(snapshot: Snapshot) -> Task:
    """``total`` is to be written again; its tests are hidden."""
    visible = ["test_largest[values0]", "test_largest[values1]", "test_largest_of_nothing"]
    return task_of(snapshot, "tally", FILES, "Write tally.total again: it adds up the values.", visible)


@pytest.fixture(scope="session")
def tasks(task: Task) -> TaskSet:
    return TaskSet([task])
