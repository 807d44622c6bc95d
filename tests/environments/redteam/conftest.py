"""A small package whose deleted function many kinds of exploits can get at, its Snapshot and its task."""

from __future__ import annotations

import pytest
from helpers.deleted_total import snapshot_of, task_of
from helpers.ledger_package import FILES

from etude.environments.snapshots import Snapshot
from etude.environments.tasks.task_set import TaskSet
from etude.models import Task


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return snapshot_of(tmp_path_factory.mktemp("source") / "ledger", FILES)


@pytest.fixture(scope="session")
def task(snapshot: Snapshot) -> Task:
    """``total`` is to be written again; its tests are hidden. A hanging solution is given up after 5 seconds."""
    visible = [f"test_largest[values{number}]" for number in (0, 1)]
    task = task_of(snapshot, "ledger", FILES, "# Implement `ledger.total`\n\nIt adds up the values.\n", visible)
    return task.model_copy(update={"verifier": snapshot.verifier.model_copy(update={"timeout_s": 5.0})})


@pytest.fixture(scope="session")
def tasks(task: Task) -> TaskSet:
    return TaskSet([task])
