"""A small package whose deleted function many kinds of exploits can get at, its Snapshot and its task."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.ledger_package import CORE, EXERCISE, FILES, HIDDEN

from etude.environments.snapshots import Snapshot, build_snapshot, make_patch
from etude.environments.tasks.task_set import TaskSet
from etude.models import GeneratorRef, Task


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Return the Snapshot of the package, which the cache keeps from one test run to the next."""
    folder: Path = tmp_path_factory.mktemp("source") / "ledger"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return build_snapshot(str(folder))


@pytest.fixture(scope="session")
def task(snapshot: Snapshot) -> Task:
    """``total`` is to be written again; its tests are hidden. A hanging solution is given up after 5 seconds."""
    core, hidden = "src/ledger/core.py", "tests/test_hidden.py"
    return Task(
        task_id="ledger-total",
        snapshot=snapshot.ref,
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement="# Implement `ledger.total`\n\nIt adds up the values.\n",
        patch=make_patch({core: EXERCISE.encode()}, {core: CORE.encode()}),
        test_patch=make_patch({hidden: None}, {hidden: HIDDEN.encode()}),
        workspace_patch=make_patch(
            {core: CORE.encode(), hidden: HIDDEN.encode()}, {core: EXERCISE.encode(), hidden: None}
        ),
        FAIL_TO_PASS=[f"{hidden}::{name}" for name in ("test_total", "test_total_of_nothing", "TestTotal::test_many")],
        PASS_TO_PASS=[f"tests/test_visible.py::test_largest[values{number}]" for number in (0, 1)],
        source_globs=["src/ledger/**"],
        protected_paths=["tests/**", "**/conftest.py", "pyproject.toml"],
        verifier=snapshot.verifier.model_copy(update={"timeout_s": 5.0}),
    )


@pytest.fixture(scope="session")
def tasks(task: Task) -> TaskSet:
    return TaskSet([task])
