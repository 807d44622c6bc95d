"""Candidates that bring their own solution and hidden tests: the Snapshot is not what the task asks for."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from helpers.deleted_total import write_project

from etude.environments.snapshots import build_snapshot
from etude.environments.tasks.task_trees import Materials
from etude.errors import Rejected
from etude.generators.base import Candidate, HiddenTests, StatementContext
from etude.generators.validation.pipeline import Validator
from etude.models import GeneratorRef

CODE = '''\
def total(prices):
    """Return the sum of all prices that are not negative."""
    kept = [price for price in prices if price >= 0]
    return sum(kept)


def count(prices):
    return len(prices)
'''
RENAMED = CODE.replace("def total", "def full_amount") + "\n\ndef total(prices):\n    return full_amount(prices)\n"
TESTS = """\
import shop


def test_total():
    assert shop.total([1, -2, 3]) == 4


def test_count():
    assert shop.count([1, 2]) == 2
"""
RENAMED_TESTS = TESTS.replace("shop.total", "shop.full_amount") + (
    "\n\ndef test_both_names():\n    assert shop.total([1, 2]) == shop.full_amount([1, 2]) == 3\n"
)
TOTAL, COUNT, BOTH = (f"tests/test_shop.py::test_{name}" for name in ("total", "count", "both_names"))


class Sentence:
    def render(self, context: StatementContext) -> str:
        return "Rename `shop.total` to `shop.full_amount`, and keep the old name as an alias.\n"


@pytest.fixture(scope="module")
def validator(tmp_path_factory):
    files = {"shop.py": CODE, "tests/test_shop.py": TESTS}
    return Validator(build_snapshot(str(write_project(tmp_path_factory.mktemp("shop"), files))))


@pytest.fixture
def candidate():
    return Candidate(
        entity="shop.py::total",
        generator=GeneratorRef(name="rename", version="1", seed=0),
        exercise={},
        hidden_tests=HiddenTests([TOTAL, BOTH], added={"tests/test_shop.py": RENAMED_TESTS.encode()}),
        statement=Sentence(),
        subject="full_amount",
        solution={"shop.py": RENAMED.encode()},
    )


def test_a_candidate_with_its_own_solution_becomes_a_task(validator, candidate):
    task = asyncio.run(validator.task(candidate))
    assert (task.FAIL_TO_PASS, task.PASS_TO_PASS) == ([TOTAL, BOTH], [COUNT])
    assert task.workspace_patch == "", "the workspace is the Snapshot: the replaced tests stay visible"
    trees = Materials(task, validator.snapshot)
    assert (trees.agent_tree / "tests/test_shop.py").read_text() == TESTS
    assert (trees.grading_tree / "tests/test_shop.py").read_text() == RENAMED_TESTS
    assert (trees.solved_tree / "shop.py").read_text() == RENAMED
    assert task.assurance == "in_process"
    assert task.verifier_strength and task.verifier_strength > 0.5, "tests that pass in the workspace count too"


def test_added_tests_are_part_of_the_workspace_when_the_policy_is_visible(validator, candidate):
    visible = replace(candidate, hidden_tests=replace(candidate.hidden_tests, policy="visible"))
    task = asyncio.run(validator.task(visible))
    assert task.test_patch == ""
    assert (Materials(task, validator.snapshot).agent_tree / "tests/test_shop.py").read_text() == RENAMED_TESTS


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"solution": {"shop.py": RENAMED.replace("len(prices)", "0").encode()}}, "v2_solution"),
        ({"solution": {"shop.py": b"import missing\n"}}, "v0_import"),
        ({"solution": {"shop.py": b"def total(:\n"}}, "v0_syntax"),
    ],
)
def test_a_wrong_solution_is_rejected(validator, candidate, change, reason):
    with pytest.raises(Rejected) as caught:
        asyncio.run(validator.task(replace(candidate, **change)))
    assert caught.value.reason == reason
