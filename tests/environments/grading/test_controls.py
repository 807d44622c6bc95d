"""Negative controls: code that passes a test whatever it expects scores 0, and right solutions score 1."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from etude.environments.grading import controls as module
from etude.environments.grading import grade
from etude.environments.grading.controls import Control, Placed, pack, unpack
from etude.environments.grading.in_process import verify
from etude.environments.grading.submission import Submission, grade_submission
from etude.environments.sandbox import Change
from etude.environments.snapshots import Snapshot, make_patch
from etude.environments.snapshots.test_run.test_runner import Outcome, TestRun
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
INHERITED = (
    HIDDEN
    + """

class TestNumbers:
    limit = 9

    def test_total(self):
        assert tally.total([1, self.limit]) == 10


class TestOtherNumbers(TestNumbers):
    def test_more(self):
        assert tally.total([self.limit, 2]) == 11
"""
)
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


def test_a_test_that_another_class_inherits_has_no_controls(controlled: Task, task: Task, snapshot: Snapshot) -> None:
    inherited = ["TestNumbers::test_total", "TestOtherNumbers::test_total", "TestOtherNumbers::test_more"]
    extended = controlled.model_copy(
        update={
            "task_id": "tally-total-inherited",
            "instance_id": "tally-total-inherited",
            "test_patch": make_patch({HIDDEN_FILE: None}, {HIDDEN_FILE: INHERITED.encode()}),
            "FAIL_TO_PASS": [*controlled.FAIL_TO_PASS, *(f"{HIDDEN_FILE}::{name}" for name in inherited)],
            "verifier": task.verifier,
        }
    )
    extended = asyncio.run(with_controls(extended, Materials(extended, snapshot), "auto"))
    controls = {control.test for control in unpack(extended.pytest.controls)}
    assert f"{HIDDEN_FILE}::TestOtherNumbers::test_more" in controls
    assert f"{HIDDEN_FILE}::TestNumbers::test_total" not in controls, "its copies are those of the subclass too"
    for _ in range(3):
        assert graded(extended, HONEST["sum"]).reward.value == 1.0


def graded(task: Task, text: str) -> Grade:
    content = (HEAD + text).encode()
    return asyncio.run(grade(task, [Change(path=CORE, kind="file", size=len(content), content=content)]))


def test_each_function_has_controls_that_the_solution_fails(controlled: Task) -> None:
    controls = {control.test: control for control in unpack(controlled.pytest.controls)}
    functions = {test.partition("[")[0] for test in controlled.FAIL_TO_PASS}
    assert set(controls) == functions, "the agent can read the others"
    assert controlled.features["controls"] == len(functions) == 3
    assert all(len(control.values) == len(control.names) == 4 for control in controls.values())
    cases = controls[f"{HIDDEN_FILE}::test_total"]
    assert cases.fails[0] == () and len(cases.cases[0]) == 4
    assert all(len(fails) == 1 for fails in cases.fails[1:]), "the expected value of one case was changed"


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


def test_a_wrong_solution_fails_as_without_controls(controlled: Task) -> None:
    result = graded(controlled, "def total(values):\n    return -1\n")
    assert result.reward.components["fail_to_pass"] == 0.0
    assert {failure.test for failure in result.failures} <= set(controlled.FAIL_TO_PASS)


def partly_solved(task: Task, snapshot: Snapshot, tests: str, workspace: str, names: dict[str, list[str]]) -> Task:
    """Return a task with controls whose workspace passes some of its hidden tests."""
    core, old = (snapshot.tree / CORE).read_bytes(), (snapshot.tree / HIDDEN_FILE).read_bytes()
    partly = task.model_copy(
        update={
            "task_id": "tally-total-partly",
            "instance_id": "tally-total-partly",
            "patch": make_patch({CORE: (HEAD + workspace).encode()}, {CORE: core}),
            "workspace_patch": make_patch(
                {CORE: core, HIDDEN_FILE: old}, {CORE: (HEAD + workspace).encode(), HIDDEN_FILE: None}
            ),
            "test_patch": make_patch({HIDDEN_FILE: None}, {HIDDEN_FILE: tests.encode()}),
            **{kind: [f"{HIDDEN_FILE}::{name}" for name in tests] for kind, tests in names.items()},
        }
    )
    return asyncio.run(with_controls(partly, Materials(partly, snapshot), "auto"))


def test_a_control_that_the_workspace_passes_beside_its_test_is_left_out(task: Task, snapshot: Snapshot) -> None:
    """A workspace that answers everything alike passes a test of equality whatever its argument is."""
    tests = """import tally


def test_same():
    assert tally.total([3, 4]) == tally.total([4, 3])


def test_total():
    assert tally.total([3, 4]) == 7
"""
    names = {"FAIL_TO_PASS": ["test_total"], "PASS_TO_PASS": ["test_same"]}
    workspace = "def total(values):\n    return 0\n"
    partly = partly_solved(task, snapshot, tests, workspace, names)
    proven = unpack(partly.pytest.controls)
    assert f"{HIDDEN_FILE}::test_total" in {control.test for control in proven}
    empty = asyncio.run(grade(partly, []))
    assert empty.reward.value == 0.0 and empty.reward.components["controls"] == 1.0
    assert [finding for finding in empty.findings if finding.severity != "info"] == []
    for text in ("def total(values):\n    return 0\n", "def total(values):\n    return len(values)\n"):
        assert [finding for finding in graded(partly, text).findings if finding.severity != "info"] == []
    assert graded(partly, HONEST["sum"]).reward.value == 1.0


def test_a_workspace_that_cannot_be_collected_scores_zero(controlled: Task) -> None:
    submission = Submission(controlled, problem="more than 100000 files")
    verdict = asyncio.run(verify(submission))
    assert set(verdict.components) | {"no_confirmed_finding"} == set(controlled.verifier.components)
    assert verdict.components["controls"] == 0.0 and verdict.failures
    result, _ = asyncio.run(grade_submission(submission))
    assert (result.reward.value, result.reward.valid) == (0.0, True)


CONTROL = Control(
    "t.py::T::test_a",
    9,
    49,
    8,
    37,
    ("4", "5", "6"),
    ("test_a", "test_a_a", "test_a_b"),
    (("",),) * 3,
    ((), ("",), ("",)),
)
FILE = b"class T:\n    def test_a(self): assert f(3) == 4\n"


def placed_at(number: int) -> Placed:
    return next(place for seed in range(99) if (place := drawn(seed)).orders[0].index(0) == number)


def drawn(seed: int) -> Placed:
    return Placed.drawn([CONTROL], random.Random(seed))


def test_the_right_value_is_under_any_name(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_bytes(FILE)
    places = Counter(drawn(seed).orders[0].index(0) for seed in range(300))
    assert set(places) == {0, 1, 2} and min(places.values()) > 70
    text = placed_at(1).files(tmp_path)["t.py"].decode()
    assert "def test_a_a(self): assert f(3) == 4" in text and text.count("def test_a") == 3
    assert {line[-1] for line in text.splitlines() if "assert" in line} == {"4", "5", "6"}
    compile(text, "t.py", "exec")


def test_outcomes_count_under_the_names_that_tests_really_have() -> None:
    place = placed_at(1)
    names = [f"t.py::T::{name}" for name in CONTROL.names]
    assert place.requested(["t.py::T::test_a", "t.py::test_b"]) == [*names, "t.py::test_b"]
    outcomes = {names[0]: Outcome("failed"), names[1]: Outcome("passed"), names[2]: Outcome("failed")}
    run = TestRun({**outcomes, "t.py::test_b": Outcome("passed")}, [*names, "t.py::test_b"], True, "")
    assert set(place.as_itself(run).passed) == {"t.py::T::test_a", "t.py::test_b"}
    assert place.passed(run) == {}
    forged = replace(run, outcomes=dict.fromkeys([*names, "t.py::test_b"], Outcome("passed")))
    assert set(place.passed(forged)) == {names[0], names[2]}
    wrong = {names[0]: Outcome("failed"), names[1]: Outcome("failed"), names[2]: Outcome("passed")}
    assert place.passed(replace(run, outcomes=wrong)) == {}, "a wrong answer may be what a control expects"


def test_a_control_counts_where_the_same_case_of_the_test_passes() -> None:
    """Another case may fail: code must not switch the controls off with it, nor is wrong code accused."""
    cases = (("[1]", "[2]"), ("[1]", "[3]"))
    control = replace(CONTROL, values=("4", "5"), names=("test_a", "test_a_a"), cases=cases, fails=((), ("[3]",)))
    place = Placed((control,), ((0, 1),))
    right, copy = (f"t.py::T::{name}" for name in control.names)
    outcomes = {f"{right}[1]": "failed", f"{right}[2]": "passed", f"{copy}[1]": "passed", f"{copy}[3]": "passed"}
    run = TestRun({test: Outcome(outcome) for test, outcome in outcomes.items()}, list(outcomes), True, "")  # type: ignore[arg-type]
    assert set(place.passed(run)) == {f"{copy}[3]"}
    wrong = {**run.outcomes, f"{right}[1]": Outcome("passed"), f"{right}[2]": Outcome("failed")}
    assert place.passed(replace(run, outcomes=wrong)) == {}
    other = replace(control, cases=(("[1]", "[2]"), ("[3]",)))
    assert Placed((other,), ((0, 1),)).passed(run) == {}, "nothing says which case is the same"


def test_the_names_that_are_asked_for_do_not_depend_on_the_draw() -> None:
    assert len({tuple(drawn(seed).requested(["t.py::T::test_a"])) for seed in range(50)}) == 1


def test_damaged_controls_are_an_error() -> None:
    assert unpack(pack([CONTROL])) == (CONTROL,)
    assert (pack([]), unpack("")) == ("", ())
    with pytest.raises(GraderError, match="controls are damaged"):
        module.unpack("no record")
