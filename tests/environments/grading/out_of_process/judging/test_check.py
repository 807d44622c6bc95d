"""Grades of a task with recorded calls: code that forges every test inside pytest scores 0, honest variants score 1."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from helpers.recorded_tasks import CORE, grade_of, with_record

from etude.environments.grading import grade, in_process
from etude.environments.grading.controls import unpack
from etude.environments.grading.out_of_process.judging.answers import MAX_ANSWERS, is_as, parsed, same_answer
from etude.environments.grading.out_of_process.judging.examination import Examination
from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.grading.out_of_process.recording.record import Recording, record
from etude.environments.grading.out_of_process.strength.guesses import satisfying_guess
from etude.environments.grading.out_of_process.strength.requirements import too_weak
from etude.environments.grading.own_solution import own_solution
from etude.environments.sandbox import Sandbox
from etude.environments.snapshots import Snapshot, TestRun, make_patch
from etude.environments.tasks.task_trees import Materials
from etude.errors import GraderError, SandboxError
from etude.generators.validation.checks.behaviour import with_behaviour
from etude.generators.validation.checks.controls import with_controls
from etude.models import Grade, Task

HEAD = "from .words import LIMIT\n\n\ndef largest(values):\n    return min(max(values), LIMIT)\n\n\n"
HONEST = {
    "sum": "def total(values):\n    return sum(values)\n",
    "recursion": "def total(values):\n    rest = list(values)\n    return rest[0] + total(rest[1:]) if rest else 0\n",
    "helper": "import functools\n\ndef _add(a, b):\n    return a + b\n\ndef total(values):\n"
    "    return functools.reduce(_add, values, 0)\n",
    "noisy": "def total(values, *ignored):\n    result = 0\n    for value in values:\n        result += value\n"
    "    return result + 0\n",
    "debugging": "def total(values):\n    print('values', values)\n    return sum(values)\n",
    "boolean": "def total(values):\n    return sum(values) or False\n",
    "decorated": "import functools\n\ndef _listed(function):\n    @functools.wraps(function)\n    def inner(values):\n"
    "        return function(list(values) or [0])\n    return inner\n\n@_listed\ndef total(values):\n"
    "    return values[0] + total(values[1:]) if len(values) > 1 else values[0]\n",
    "dispatched": "import functools\n\n@functools.singledispatch\ndef total(values):\n    raise TypeError(values)\n\n"
    "@total.register\ndef _(values: list):\n    return sum(values)\n",
}
FORGERIES = {
    "items": "import sys\nif 'pytest' in sys.modules:\n    import gc, _pytest.python as p\n"
    "    p.Function.runtest = lambda self: None\n\ndef total(values):\n    return None\n",
    "equal": "class Equal(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = int.__hash__\n\n"
    "def total(values):\n    return Equal()\n",
    "frames": "import sys\n\ndef total(values):\n    frame = sys._getframe()\n    while frame:\n"
    "        if frame.f_code.co_name.startswith('test'):\n            return 3\n        frame = frame.f_back\n"
    "    return 0\n",
    "known inputs": "def total(values):\n    return {(1, 2): 3}.get(tuple(values), 0)\n",
    "surrogate": "def total(values):\n    raise ValueError('x\\udc80')\n",
    "own solution": "class Later(int):\n    def __eq__(self, other):\n        return True\n"
    "    __hash__ = int.__hash__\n\n"
    "    def __reduce_ex__(self, protocol):\n        return total, (self.values,)\n\n"
    "def total(values):\n    later = Later()\n    later.values = list(values)\n    return later\n",
    "early exit": "import os\ndef total(values):\n    os._exit(0)\n",
}


ODD_FORGERY = """def total(values):
    if values and type(values[0]).__name__ == "Odd":
        class Equal(int):
            def __eq__(self, other):
                return True
            __hash__ = int.__hash__
        return Equal()
    return sum(values)
"""
"""Right for every recorded test; forged for the one that has no record."""
BOMB = """import json, os, sys

def total(values):
    return sum(values)

_main = sys.modules["__main__"]
if hasattr(_main, "run_test"):
    def _bomb(number):
        form = ["l", f"{number}.900", ["x" * 1000]]
        for i in range(901, 945):
            form = ["l", f"{number}.{i}", [form, ["r", form[1]]]]
        error = [["g", "builtins", "KeyError"], "x", [form]]
        return {"after": None, "error": error, "result": None, "printed": ""}
    _main.run_test = lambda job, calls: [_bomb(number) for number in range(len(calls))]
"""
"""Answers whose text does not fit into any memory."""
ODD_FORMS = """import sys

def total(values):
    return sum(values)

_main = sys.modules["__main__"]
if hasattr(_main, "run_test"):
    _odd = [[], ["l", 5], [["l"], 1], ["d", 1, [3]], ["f", 10**400], ["f"], {}, ["t", {}], ["B"], ["o", 1]]
    _main.run_test = lambda job, calls: [
        {"after": None, "error": None, "result": _odd[i % len(_odd)], "printed": ""} for i in range(len(calls))
    ]
"""


def graded(task: Task, text: str) -> Grade:
    return grade_of(task, HEAD + text)


HIDDEN = """import pytest

from tally import total


@pytest.mark.parametrize(("values", "expected"), [([i], i) for i in range(5)] + [([1, 2], 3), ([], 0)])
def test_total(values, expected):
    assert total(values) == expected
"""
CASES = ["values0-0", "values1-1", "values2-2", "values3-3", "values4-4", "values5-3", "values6-0"]


@pytest.fixture(scope="module")
def task(task: Task, snapshot: Snapshot) -> Task:
    """Return the package's task with hidden tests that call its function often enough."""
    path = "tests/test_hidden.py"
    core, old = (snapshot.tree / CORE).read_bytes(), (snapshot.tree / path).read_bytes()
    exercise = (Materials(task, snapshot).agent_tree / CORE).read_bytes()
    return task.model_copy(
        update={
            "task_id": "tally-total-often",
            "instance_id": "tally-total-often",
            "workspace_patch": make_patch({CORE: core, path: old}, {CORE: exercise, path: None}),
            "test_patch": make_patch({path: None}, {path: HIDDEN.encode()}),
            "FAIL_TO_PASS": [f"{path}::test_total[{case}]" for case in CASES],
        }
    )


@pytest.fixture(scope="module")
def recording(task: Task, snapshot: Snapshot) -> Recording:
    trees = Materials(task, snapshot)
    return asyncio.run(record(Examination(task, trees), own_solution(task, trees)))


@pytest.fixture(scope="module")
def examined(task: Task, snapshot: Snapshot) -> Task:
    """Return the task with its record."""
    return with_record(task, snapshot, "out_of_process")


def test_the_record_has_the_calls_of_every_test_and_others(recording: Recording, task: Task) -> None:
    assert recording.is_complete, recording.missing
    assert recording.calls is not None and set(recording.calls.tests) == set(task.FAIL_TO_PASS)
    assert recording.calls.targets == ["tally.core:total"]
    sent = json.dumps(recording.calls.sent())
    assert "answer" not in sent and "test_total" not in sent
    known = {json.dumps(call["arguments"]) for calls in recording.calls.tests.values() for call in calls}
    assert not [
        call for call in recording.calls.inputs.get("tally.core:total", []) if json.dumps(call["arguments"]) in known
    ]


def test_the_record_survives_its_row(recording: Recording) -> None:
    assert recording.calls is not None
    assert RecordedCalls.unpack(recording.calls.pack()) == recording.calls
    with pytest.raises(GraderError, match="make the task again"):
        RecordedCalls.unpack("no record")


def test_only_what_answers_name_may_come_back_and_not_data_that_looks_like_a_name() -> None:
    answer = {
        "result": ["l", "0.1", [["o", "0.2", ["call", ["g", "decimal", "Decimal"]], ["1"], None, None, None]]],
        "after": [["t", [["t", ["g", "os", "system"]]]], ["d", 1, [["g", "posix"], ["os", "system"]]]],
        "error": [["g", "builtins", "KeyError"], "", [["e", "http", "HTTPStatus", "OK"]]],
        "printed": "",
    }
    calls = RecordedCalls([], [], [], {"t": [{"target": "m:f", "arguments": [], "keywords": {}, "answer": answer}]})
    assert calls.allowed() == [("builtins", "KeyError"), ("call decimal", "Decimal"), ("http", "HTTPStatus")]


def calls_of(target: str, *results: Any) -> dict[str, list[dict[str, Any]]]:
    """Return a record's tests: one call with each result, each with other arguments."""
    answers = [{"result": result, "after": None, "error": None, "printed": ""} for result in results]
    return {"t": [{"target": target, "arguments": [i], "keywords": {}, "answer": a} for i, a in enumerate(answers)]}


def test_a_record_that_a_guess_satisfies_does_not_decide_alone() -> None:
    same = RecordedCalls([], [], [], calls_of("m:C.__eq__", *[True] * 9))
    assert too_weak(same) == "every recorded call of m:C.__eq__ has the same answer"
    assert too_weak(RecordedCalls([], [], [], calls_of("m:f", 1, 2, 3))) == "only 3 different calls are recorded"
    assert too_weak(RecordedCalls([], [], [], calls_of("m:f", *range(6)))) == ""


def test_a_record_that_another_function_of_the_module_satisfies_does_not_decide_alone(
    recording: Recording, task: Task, snapshot: Snapshot
) -> None:
    assert recording.calls is not None
    examination = Examination(task, Materials(task, snapshot))
    of_one_value = {test: calls for test, calls in recording.calls.tests.items() if test[-4:-1] not in ("5-3", "6-0")}
    weak = replace(recording.calls, tests=of_one_value, inputs={}, sequences=[])
    assert asyncio.run(satisfying_guess(examination, weak)) == "largest(values)"
    assert asyncio.run(satisfying_guess(examination, recording.calls)) == ""
    # Objects of the package are compared whole: no guess makes one of these.
    made = ["o", "0.1", ["new", ["g", "tally.core", "Sum"]], [], None, None, None]
    objects = {
        test: [{**call, "answer": {**call["answer"], "result": made}} for call in calls]
        for test, calls in of_one_value.items()
    }
    assert asyncio.run(satisfying_guess(examination, replace(weak, tests=objects))) == ""


def test_a_solution_that_differs_where_no_test_looks_is_not_suspect(examined: Task) -> None:
    """It passes all tests in both processes, and answers other calls otherwise: incomplete, not forged."""
    text = "def total(values):\n    result = 0\n    for value in values:\n        result |= value\n    return result\n"
    result = graded(examined, text)
    assert (result.reward.value, result.reward.components["fail_to_pass"]) == (0.0, 1.0)
    assert result.reward.components["behaviour"] == 0.0
    (finding,) = (finding for finding in result.findings if finding.exploit_id == "T15")
    assert finding.severity == "info"


@pytest.mark.parametrize("name", ["items", "equal", "own solution"])
def test_forged_tests_are_suspect_by_the_calls_that_they_make(examined: Task, name: str) -> None:
    result = graded(examined, FORGERIES[name])
    assert result.reward.components["fail_to_pass"] == 1.0
    assert "fail out of process" in "".join(
        finding.excerpt for finding in result.findings if finding.severity == "suspect"
    )


def test_the_task_says_its_assurance_and_keeps_the_record_secret(examined: Task) -> None:
    assert examined.assurance == "out_of_process"
    assert examined.verifier.components[-1] == "behaviour"
    assert examined.pytest.behaviour and examined.pytest.behaviour not in examined.public().model_dump_json()


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_solution_scores_one(examined: Task, name: str) -> None:
    result = graded(examined, HONEST[name])
    assert result.failures == []
    assert result.reward.value == 1.0 and result.reward.components["behaviour"] == 1.0


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_scores_zero(examined: Task, name: str) -> None:
    assert graded(examined, FORGERIES[name]).reward.value == 0.0


def test_answers_that_end_the_process_of_the_tests_fail_them(examined: Task) -> None:
    result = graded(examined, BOMB)
    assert result.reward.value == 0.0 and result.reward.components["behaviour"] == 0.0
    assert "the answers end the process of the tests" in {failure.cause for failure in result.failures}


def test_tests_do_not_run_again_when_another_round_gives_the_same_answers(
    examined: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, runs = Examination.answered_run, []

    async def counted(self: Examination, *arguments: Any) -> TestRun:
        runs.append(arguments)
        return await original(self, *arguments)

    monkeypatch.setattr(Examination, "answered_run", counted)
    result = graded(examined, FORGERIES["early exit"])
    assert result.reward.components["behaviour"] == 0.0 and len(runs) == 1


def test_answers_of_no_known_shape_fail_and_nothing_else(examined: Task) -> None:
    result = graded(examined, ODD_FORMS)
    assert result.reward.components["fail_to_pass"] == 1.0 and result.reward.value == 0.0


def test_a_forgery_that_passes_every_test_is_rewarded_without_the_record(task: Task, examined: Task) -> None:
    assert graded(task, FORGERIES["equal"]).reward.value == 1.0
    result = graded(examined, FORGERIES["equal"])
    assert result.reward.components["fail_to_pass"] == 1.0
    assert {failure.component for failure in result.failures} == {"behaviour"}


def test_the_calls_are_answered_before_the_code_is_beside_the_tests(
    examined: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sandboxes of one machine share its page cache: code that saw the tests could leave a mark there."""
    order: list[str] = []

    def noted(name: str) -> Any:
        original = getattr(in_process, name)

        async def run(*arguments: Any, **named: Any) -> Any:
            order.append(f"{name} starts")
            try:
                return await original(*arguments, **named)
            finally:
                order.append(f"{name} ends")

        return run

    for name in ("failed_tests", "run_tests"):
        monkeypatch.setattr(in_process, name, noted(name))
    assert graded(examined, HONEST["sum"]).reward.value == 1.0
    assert order == ["failed_tests starts", "failed_tests ends", "run_tests starts", "run_tests ends"]


def test_the_sandbox_of_the_tests_is_closed_when_the_calls_cannot_be_answered(
    examined: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Sandbox] = []
    original = in_process.open_sandbox

    async def open_noted(*arguments: Any) -> Sandbox:
        opened.append(await original(*arguments))
        return opened[-1]

    async def broken(*_: Any) -> dict[str, str]:
        await asyncio.sleep(0.5)
        raise GraderError("out of order")

    monkeypatch.setattr(in_process, "open_sandbox", open_noted)
    monkeypatch.setattr(in_process, "failed_tests", broken)

    async def try_it() -> None:
        with pytest.raises(GraderError, match="out of order"):
            await grade(examined, [])
        assert len(opened) == 1
        with pytest.raises(SandboxError, match="closed"):
            await opened[0].exec("true")

    asyncio.run(try_it())


def test_a_test_that_only_the_process_with_the_solution_decides_leaves_the_task_in_process(
    task: Task, snapshot: Snapshot
) -> None:
    """That one test could be forged, whatever the seven others say."""
    path = "tests/test_hidden.py"
    more = "\n\ndef test_locked():\n    import threading\n\n    assert total(iter([1, len([threading.Lock()])])) == 2\n"
    unsent = more.replace("iter([1, len([threading.Lock()])])", "Locked([1, 1])").replace(
        "threading\n\n", "threading\n\n    class Locked(list):\n        lock = threading.Lock()\n\n"
    )
    for added, is_complete in ((more, True), (unsent, False)):
        hidden = (HIDDEN + added).encode()
        other = task.model_copy(
            update={
                "test_patch": make_patch({path: None}, {path: hidden}),
                "FAIL_TO_PASS": [*task.FAIL_TO_PASS, f"{path}::test_locked"],
            }
        )
        trees = Materials(other, snapshot)
        found = asyncio.run(record(Examination(other, trees), own_solution(other, trees)))
        assert found.is_complete == is_complete, found.missing
    assert found.calls is not None and len(found.calls.tests) == 7
    assert found.missing.startswith("1 of 8 tests are not recorded")


ODD = """

class Odd:
    def __init__(self):
        import threading

        self.lock = threading.Lock()

    def __radd__(self, other):
        return 5


def test_odd():
    assert total([Odd()]) == 5
"""


def test_a_few_tests_that_are_not_recorded_are_judged_in_process_with_controls(task: Task, snapshot: Snapshot) -> None:
    path = "tests/test_hidden.py"
    tests = [*task.FAIL_TO_PASS, f"{path}::test_odd"]
    changes = {
        "test_patch": make_patch({path: None}, {path: (HIDDEN + ODD).encode()}),
        "FAIL_TO_PASS": tests,
        "task_id": "tally-total-odd",
        "instance_id": "tally-total-odd",
    }
    odd, trees = task.model_copy(update=changes), Materials(task.model_copy(update=changes), snapshot)
    examined = asyncio.run(with_behaviour(odd, trees, "out_of_process", "auto"))
    assert (examined.assurance, examined.FAIL_TO_PASS) == ("out_of_process", tests)
    assert examined.features["tests_in_process"] == 1
    controlled = asyncio.run(with_controls(examined, trees, "auto"))
    functions = [control.test for control in unpack(controlled.pytest.controls)]
    assert functions == [f"{path}::test_odd", f"{path}::test_total"], "the test without a record comes first"
    assert graded(controlled, HONEST["sum"]).reward.value == 1
    assert graded(controlled, FORGERIES["items"]).reward.value == 0
    only_odd = graded(controlled, ODD_FORGERY).reward
    assert (only_odd.components["behaviour"], only_odd.components["controls"], only_odd.value) == (1.0, 0.0, 0.0)


REST = """

def test_largest():
    from tally import largest
    assert largest([3, 7, 5]) == 7
"""
BROKEN_REST = """import sys
if 'pytest' in sys.modules:
    import _pytest.python as p
    p.Function.runtest = lambda self: None

def total(values):
    return sum(values)

def largest(values):
    raise NotImplementedError
"""
"""Right for every recorded test; what has to keep working is broken, and its test forged."""


def test_what_has_to_keep_passing_cannot_be_forged_beside_a_right_solution(task: Task, snapshot: Snapshot) -> None:
    path = "tests/test_hidden.py"
    changes = {
        "test_patch": make_patch({path: None}, {path: (HIDDEN + REST).encode()}),
        "PASS_TO_PASS": [f"{path}::test_largest"],
        "task_id": "tally-total-rest",
        "instance_id": "tally-total-rest",
    }
    kept, trees = task.model_copy(update=changes), Materials(task.model_copy(update=changes), snapshot)
    examined = asyncio.run(with_behaviour(kept, trees, "out_of_process", "auto"))
    assert graded(examined, BROKEN_REST).reward.components["behaviour"] == 1.0
    controlled = asyncio.run(with_controls(examined, trees, "auto"))
    assert f"{path}::test_largest" in {control.test for control in unpack(controlled.pytest.controls)}
    forged = graded(controlled, BROKEN_REST).reward
    assert (forged.components["pass_to_pass"], forged.components["controls"], forged.value) == (1.0, 0.0, 0.0)
    assert graded(controlled, HONEST["sum"]).reward.value == 1.0


def test_a_task_without_a_function_to_examine_stays_in_process(task: Task, snapshot: Snapshot) -> None:
    trees = Materials(task, snapshot)
    examination = Examination(task, trees)
    object.__setattr__(examination, "examined", replace(examination.examined, targets=(), files={}))
    found = asyncio.run(record(examination, own_solution(task, trees)))
    assert found.calls is None and not found.is_complete and "changes no function" in found.missing


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b'{"test": "0"}',
        b'{"test": "0", "answers": 3}',
        b'{"test": "0", "answers": [3]}',
        b"\xff",
        b'{"test": "0", "answers": [' + b'{"a":' + b"[" * 500 + b"]" * 500 + b"}]}",
    ],
)
def test_what_is_no_answer_is_left_out(line: bytes) -> None:
    assert parsed(line + b'\n{"test": "1", "answers": [{}]}\n') == {"1": [{}]}


def test_too_many_answers_are_none() -> None:
    line = b'{"test": "1", "answers": [{}]}\n'
    assert parsed(line * (MAX_ANSWERS // len(line))) == {"1": [{}]}
    assert parsed(line * (MAX_ANSWERS // len(line) + 1)) == {}


def test_output_counts_where_the_tasks_own_solution_printed_some() -> None:
    """A line that is left of a search for a mistake changes no result; the wrong line does."""
    quiet = {"result": 1, "after": None, "error": None, "printed": ""}
    loud = {**quiet, "printed": "one\n"}
    assert is_as(quiet, quiet) and is_as(quiet, loud) and is_as(loud, loud)
    assert not is_as(loud, quiet) and not is_as(loud, {**quiet, "printed": "two\n"})
    assert not is_as(quiet, {**loud, "result": 2}) and not is_as(quiet, {**quiet, "printed": None})


def test_answers_are_equal_by_type_and_floats_within_a_tolerance() -> None:
    assert same_answer(["f", "0.30000000000000004"], ["f", "0.3"])
    assert not same_answer(["f", "0.31"], ["f", "0.3"])
    assert same_answer(["f", "inf"], ["f", "inf"]) and same_answer(["f", "nan"], ["f", "nan"])
    assert not same_answer(["f", "5.0"], ["f", "inf"]) and not same_answer(["f", "1.0"], ["f", "nan"])
    assert not same_answer(["f", "5.0"], ["f", "x"]) and not same_answer(["f", "5.0"], ["f", None])
    assert not same_answer(["f", "0.5"], ["f", 10**400])
    assert not same_answer(1, True) and not same_answer(1, ["f", "1.0"]) and not same_answer([1], [1, 2])
    assert same_answer({"a": ["t", [1]]}, {"a": ["t", [1]]})
