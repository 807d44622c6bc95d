"""A small real package, its Snapshot (cached between runs) and one task made from it by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.environments.snapshots import Snapshot, build_snapshot, make_patch
from etude.environments.tasks.task_set import TaskSet
from etude.models import GeneratorRef, Task

CORE = '''"""Counting."""

from .words import LIMIT


def total(values):
    """The sum of the values."""
    result = 0
    for value in values:
        result += value
    return result


def largest(values):
    """The largest value, LIMIT at most."""
    return min(max(values), LIMIT)
'''
EXERCISE = CORE.replace(
    "    result = 0\n    for value in values:\n        result += value\n    return result\n",
    "    raise NotImplementedError\n",
)
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
FILES = {
    "pyproject.toml": """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "tally"
version = "1.0"
license = {text = "MIT"}
[tool.pytest.ini_options]
testpaths = ["tests"]
""",
    "src/tally/__init__.py": "from .core import largest, total\n",
    "src/tally/core.py": CORE,
    "src/tally/words.py": "LIMIT = 100\n",
    "tests/test_visible.py": VISIBLE,
    "tests/test_hidden.py": HIDDEN,
}


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Return the Snapshot of the package, which the cache keeps from one test run to the next."""
    folder: Path = tmp_path_factory.mktemp("source") / "tally"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return build_snapshot(str(folder))


@pytest.fixture(scope="session")
def task(snapshot: Snapshot) -> Task:
    """``total`` is to be written again; its tests are hidden."""
    core, hidden = "src/tally/core.py", "tests/test_hidden.py"
    return Task(
        task_id="tally-total",
        snapshot=snapshot.ref,
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement="Write tally.total again: it adds up the values.",
        patch=make_patch({core: EXERCISE.encode()}, {core: CORE.encode()}),
        test_patch=make_patch({hidden: None}, {hidden: HIDDEN.encode()}),
        workspace_patch=make_patch(
            {core: CORE.encode(), hidden: HIDDEN.encode()}, {core: EXERCISE.encode(), hidden: None}
        ),
        FAIL_TO_PASS=[
            "tests/test_hidden.py::test_total",
            "tests/test_hidden.py::test_total_of_nothing",
            "tests/test_hidden.py::TestTotal::test_many",
        ],
        PASS_TO_PASS=[
            "tests/test_visible.py::test_largest[values0]",
            "tests/test_visible.py::test_largest[values1]",
            "tests/test_visible.py::test_largest_of_nothing",
        ],
        source_globs=["src/tally/**"],
        protected_paths=["tests/**", "**/conftest.py", "pyproject.toml"],
        verifier=snapshot.verifier,
    )


@pytest.fixture(scope="session")
def tasks(task: Task) -> TaskSet:
    return TaskSet([task])
