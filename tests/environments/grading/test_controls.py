"""Negative controls: what passes a test whatever it expects is not rewarded, and every right solution is."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from etude.environments.grading import controls as module
from etude.environments.grading import grade
from etude.environments.grading.controls import Control, changed_files, drawn_parts, pack, requested_tests, unpack
from etude.environments.sandbox import Change
from etude.environments.snapshots import Snapshot, make_patch
from etude.environments.tasks.task_trees import Materials
from etude.errors import GraderError
from etude.generators.validation.checks.controls import with_controls
from etude.models import Grade, Task

CORE, HIDDEN_FILE = "src/tally/core.py", "tests/test_hidden.py"
HEAD = "from .words import LIMIT\n\n\ndef largest(values):\n    return min(max(values), LIMIT)\n\n\n"
HIDDEN = """import pytest
import tally


@pytest.mark.parametrize(("values", "expected"), [([1, 2], 3), ([4], 4), ([], 0), ([5, 5, 5], 15)])
def test_total(values, expected):
    assert tally.total(values) == expected


def test_total_of_floats():
    assert tally.total([0.5, 0.25]) == 0.75


class TestTotal:
    def test_text(self):
        with pytest.raises(TypeError):
            tally.total(["a"])
"""
HONEST = {
    "sum": "def total(values):\n    return sum(values)\n",
    "loop": "def total(values):\n    result = 0\n    for value in values:\n        result += value\n"
    "    return result\n",
}
FORGERIES = {
    "items": "import sys\nif 'pytest' in sys.modules:\n    import _pytest.python as p\n"
    "    p.Function.runtest = lambda self: None\n\ndef total(values):\n    return None\n",
    "equal": "class Equal(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = int.__hash__\n\n"
    "def total(values):\n    if 'a' in values:\n        raise TypeError\n    return Equal()\n",
    "frames": "import sys\n\ndef total(values):\n    if 'a' in values:\n        raise TypeError\n"
    "    code = sys._getframe(1)\n"
    "    return code.f_locals.get('expected', 0.75)\n",
    "reports": "import sys\n\ndef total(values):\n    from _pytest import runner\n"
    "    runner.CallInfo.excinfo = property(lambda self: None, lambda self, value: None)\n    return None\n",
}


@pytest.fixture(scope="module")
def controlled(task: Task, snapshot: Snapshot) -> Task:
    """Return the package's task with other hidden tests, and their controls."""
    core, old = (snapshot.tree / CORE).read_bytes(), (snapshot.tree / HIDDEN_FILE).read_bytes()
    exercise = (Materials(task, snapshot).agent_tree / CORE).read_bytes()
    names = ["test_total[values0-3]", "test_total[values1-4]", "test_total[values2-0]", "test_total[values3-15]"]
    hidden = task.model_copy(
        update={
            "task_id": "tally-total-controlled",
            "instance_id": "tally-total-controlled",
            "workspace_patch": make_patch({CORE: core, HIDDEN_FILE: old}, {CORE: exercise, HIDDEN_FILE: None}),
            "test_patch": make_patch({HIDDEN_FILE: None}, {HIDDEN_FILE: HIDDEN.encode()}),
            "FAIL_TO_PASS": [
                f"{HIDDEN_FILE}::{name}" for name in [*names, "test_total_of_floats", "TestTotal::test_text"]
            ],
        }
    )
    return asyncio.run(with_controls(hidden, Materials(hidden, snapshot), "auto"))


def graded(task: Task, text: str) -> Grade:
    content = (HEAD + text).encode()
    return asyncio.run(grade(task, [Change(path=CORE, kind="file", size=len(content), content=content)]))


def test_each_function_has_a_control_that_the_solution_fails(controlled: Task) -> None:
    controls = {control.test: control for control in unpack(controlled.pytest.controls)}
    functions = {test.partition("[")[0] for test in controlled.FAIL_TO_PASS}
    assert set(controls) == functions, "the agent can read the others"
    assert controlled.features["controls"] == len(functions) == 3
    with_cases = controls[f"{HIDDEN_FILE}::test_total"]
    assert len(with_cases.fails) == 1, "the expected value of one case was changed"
    assert len(with_cases.passes) == 3


@pytest.mark.parametrize("name", HONEST)
def test_a_right_solution_scores_one_whatever_is_drawn(controlled: Task, name: str) -> None:
    for _ in range(3):
        result = graded(controlled, HONEST[name])
        assert (result.reward.value, result.failures) == (1.0, [])
        assert result.reward.components["controls"] == 1.0
        assert not [finding for finding in result.findings if finding.severity != "info"]


@pytest.mark.parametrize("name", FORGERIES)
def test_what_passes_whatever_is_expected_scores_zero(controlled: Task, name: str) -> None:
    result = graded(controlled, FORGERIES[name])
    assert result.reward.value == 0.0
    without = controlled.model_copy(
        update={
            "verifier": controlled.pytest.model_copy(
                update={"controls": "", "components": ["fail_to_pass", "pass_to_pass", "no_confirmed_finding"]}
            )
        }
    )
    before = graded(without, FORGERIES[name]).reward.components
    assert before["fail_to_pass"] == before["pass_to_pass"] == 1.0, "a forgery that fails anyway shows nothing"
    assert result.reward.components["controls"] == 0.0
    assert any(finding.exploit_id == "T15" for finding in result.findings)


def test_a_wrong_solution_costs_no_second_run(controlled: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("nothing is drawn for a solution that failed")

    monkeypatch.setattr("etude.environments.grading.in_process.drawn_parts", refused)
    assert graded(controlled, "def total(values):\n    return -1\n").reward.components["controls"] == 0.0


def test_every_control_is_in_one_of_two_runs_and_nobody_knows_which() -> None:
    controls = [
        Control(f"t.py::test_{number}", number, number + 1, "x", (f"t.py::test_{number}",)) for number in range(5)
    ]
    draws = [drawn_parts(controls, random.Random(seed)) for seed in range(400)]
    assert all(sorted(control.start for part in parts for control in part) == list(range(5)) for parts in draws)
    assert {tuple(map(len, parts)) for parts in draws} == {(2, 3), (3, 2)}
    counts = Counter(control.test for parts in draws for control in parts[0])
    assert all(160 < count < 240 for count in counts.values())
    assert drawn_parts(controls[:1], random.Random(0)) == [controls[:1]]


def test_a_run_has_as_many_tests_with_controls_as_without(controlled: Task) -> None:
    controls = unpack(controlled.pytest.controls)
    without, with_all = requested_tests(controlled, []), requested_tests(controlled, controls)
    assert set(without) == {*controlled.FAIL_TO_PASS, *controlled.PASS_TO_PASS}
    assert len(with_all) == len(without)
    assert with_all != without
    functions = [[test.partition("[")[0] for test in tests] for tests in (without, with_all)]
    assert functions[0] == functions[1], "the order would say which run it is"


def test_both_runs_write_the_same_files(controlled: Task, snapshot: Snapshot) -> None:
    tree, controls = Materials(controlled, snapshot).grading_tree, unpack(controlled.pytest.controls)
    assert changed_files(tree, controls, []) == {HIDDEN_FILE: HIDDEN.encode()}
    changed = changed_files(tree, controls, controls)[HIDDEN_FILE]
    assert sum(one != other for one, other in zip(HIDDEN.splitlines(), changed.decode().splitlines(), strict=True)) == 3


def test_damaged_controls_are_an_error() -> None:
    control = Control("t.py::test_a", 0, 1, "x", ("t.py::test_a",))
    assert unpack(pack([control])) == (control,)
    assert (pack([]), unpack("")) == ("", ())
    with pytest.raises(GraderError, match="controls are damaged"):
        module.unpack("no record")
