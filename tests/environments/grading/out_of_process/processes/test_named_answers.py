"""A solution that reads all calls in advance does not find recorded answers in their arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.recorded_tasks import CORE, grade_of, with_record

from etude.environments.grading.out_of_process.judging.rounds import gives_away, stood_by
from etude.environments.grading.out_of_process.processes.named_answers import answered, filled, hidden
from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.snapshots import Snapshot, make_patch
from etude.environments.tasks.task_trees import Materials
from etude.models import Grade, Task

HEAD = "from .words import LIMIT\n\n\ndef largest(values):\n    return min(max(values), LIMIT)\n\n\n"


def call(answer: Any, *arguments: Any, after: Any = None, error: Any = None) -> dict[str, Any]:
    whole = {"result": answer, "after": after, "error": error, "printed": ""}
    return {"target": "m:f", "arguments": list(arguments), "keywords": {}, "answer": whole}


TOLD = {
    "a string": (call("secret", "x"), "secret"),
    "a number": (call(["t", [1, 4711]], "x"), 4711),
    "a negative number": (call(-1, "x"), -1),
    "a float": (call(["f", "0.5"], "x"), ["f", "0.5"]),
    "bytes": (call(["b", "AAE="], "x"), ["b", "AAE="]),
    "a part of a list of a test": (call("secret", "x"), ["l", 4, [1, "secret"]]),
    "a tuple of small numbers": (call(["t", [3, 1, 2]], "x"), ["t", [3, 1, 2]]),
    "the list that was returned": (call(["l", "0.1", [3, 1, 2]], "x"), ["l", "0.1", [3, 1, 2]]),
    "a list that was sorted in place": (
        call(None, ["l", 1, [3, 1, 2]], after=[["l", 1, [1, 2, 3]]]),
        ["l", 1, [1, 2, 3]],
    ),
    "the text of an exception": (call(None, "x", error=[["g", "builtins", "KeyError"], "'secret'", []]), "'secret'"),
    "an attribute": (
        call(["o", "0.1", ["new", ["g", "m", "C"]], [], ["D", [["name", "secret"]]], None, None], "x"),
        ["o", "0.1", ["new", ["g", "m", "C"]], [], ["D", [["name", "secret"], ["other", 1]]], None, None],
    ),
    "what a function of the test holds": (
        call("secret", "x"),
        ["fn", 4, "", "f", "m", [None, None], [["kept", ["secret"]]], [], []],
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_an_argument_names_the_answer_that_it_is(name: str) -> None:
    first, argument = TOLD[name]
    calls = [first, call("other", argument)]
    asked = hidden(calls)
    assert '["a", 0' in json.dumps(asked[1]) and "answer" not in json.dumps(asked)
    for secret in ("secret", "4711", "AAE=", "0.5", "[3, 1, 2]", "[1, 2, 3]", "-1"):
        assert secret not in json.dumps(asked[1]["arguments"])
    assert filled(asked[1], [first["answer"]])["arguments"] == [argument]
    assert answered(calls, [item["answer"] for item in calls]) == calls


@pytest.mark.parametrize("value", ["ab", 7, None, True, ["t", [1, 2]], ["b", ""]])
def test_what_says_little_stays(value: Any) -> None:
    assert hidden([call(value, "x"), call("other", value)])[1]["arguments"] == [value]


def test_what_the_solution_was_given_before_stays() -> None:
    """A function may return its argument: the argument of another call is not what it answered."""
    assert hidden([call("given", "given"), call("other", "given")])[1]["arguments"] == ["given"]


def test_names_of_classes_and_tags_are_no_data() -> None:
    form = ["o", 2, ["call", ["g", "decimal", "Decimal"]], ["12"], None, None, None]
    assert hidden([call("decimal", "x"), call("call", "y"), call("other", form)])[2]["arguments"] == [form]


def test_the_private_state_of_an_opaque_object_is_no_answer() -> None:
    """Each solution has its own: a part of it would be nowhere in another one's answer."""
    made = ["O", "0.1", ["g", "m", "C"], [["_hidden", "private"]], None, None]
    assert hidden([call(made, "x"), call("other", "private")])[1]["arguments"] == ["private"]


def test_another_answer_is_the_argument_of_later_calls() -> None:
    calls = [call("secret", "x"), call("other", ["l", 1, ["secret"]])]
    other = [{**calls[0]["answer"], "result": "mine"}, calls[1]["answer"]]
    assert answered(calls, other)[1]["arguments"] == [["l", 1, ["mine"]]]


@pytest.mark.parametrize(
    "odd", [{}, {"result": 5}, {"result": []}, {"result": {"1": 2}}, {"result": None}, {"broken": ""}]
)
def test_an_answer_without_the_part_ends_the_list(odd: dict[str, Any]) -> None:
    calls = [call(["t", ["secret", 1]], "x"), call("other", "secret"), call("last")]
    assert [item["answer"] for item in answered(calls, [odd, {}, {}])] == [odd]


def test_answers_do_not_grow_without_end() -> None:
    calls = [call("secret", "x"), *[call(f"other {i}", *["secret"] * 50) for i in range(50)]]
    large = {**calls[0]["answer"], "result": ["t", ["y" * 1_000_000]]}
    assert len(answered(calls, [large] * len(calls))) < 3


def test_an_answer_that_was_given_stands() -> None:
    calls = [call("secret", "x"), call("other", "secret")]
    given, now = [{**calls[0], "answer": "first"}], ["second", "new"]
    assert [item["answer"] for item in stood_by(given, calls, now)] == ["first", "new"]
    assert [item["answer"] for item in stood_by([{**given[0], "target": "m:g"}], calls, now)] == now
    # What the test has had is no question any more, even where the object of the call is another one by now.
    assert [item["answer"] for item in stood_by([{**given[0], "target": "m:g"}], calls, now, [0])] == ["first", "new"]


def test_an_object_in_the_place_of_data_is_not_asked_what_the_test_expects() -> None:
    """The task examines a class's equality: an object of it where a string belongs is asked whether it equals that."""

    def compared(*arguments: Any) -> dict[str, Any]:
        return {**call(True, *arguments), "target": "m:C.__eq__"}

    own = ["h", 1, []]
    assert gives_away(compared(own, "expected"), [[compared(own, ["h", 2, []])]])
    assert gives_away(compared(own, 42), [[compared(own, "text")]])
    assert not gives_away(compared(own, "expected"), [[compared(own, "other text")]])
    for method in ("__contains__", "__rsub__", "__mod__"):
        assert gives_away({**compared(own, "expected"), "target": f"m:C.{method}"}, [[]])
    assert not gives_away({**compared(own), "target": "m:C.__len__"}, [[]])
    assert not gives_away(compared(own, ["h", 2, []]), [[]]) and not gives_away(call(1, "expected"), [[]])


HIDDEN = """import pytest

from tally import total


@pytest.mark.parametrize(("first", "second"), [(i, 3 * i + 20) for i in range(1, 8)])
def test_total(first, second):
    once = total([first, second])
    assert total([once, once]) == 8 * first + 40
    assert once == 4 * first + 20
"""
READER = '''import sys

def total(values):
    return 0

_frame = sys._getframe()
while _frame is not None and "run_test" not in _frame.f_globals:
    _frame = _frame.f_back
if _frame is not None:
    def _read(job, calls):
        """Answer the first call with what the second one is given; the second one adds that up."""
        def value(number):
            if number + 1 < len(calls):
                form = calls[number + 1]["arguments"][0]
                return form[2][0] if isinstance(form[2][0], int) else 0
            form = calls[number]["arguments"][0]
            return sum(item for item in form[2] if isinstance(item, int))
        return [{"after": None, "error": None, "result": value(i), "printed": ""} for i in range(len(calls))]
    _frame.f_globals["run_test"] = _read
if "pytest" in sys.modules:
    import _pytest.python as p
    p.Function.runtest = lambda self: None
'''


@pytest.fixture(scope="module")
def chained(task: Task, snapshot: Snapshot) -> Task:
    """Return a task whose tests pass on what they got, with its record and without held-out calls."""
    path = "tests/test_hidden.py"
    core, old = (snapshot.tree / CORE).read_bytes(), (snapshot.tree / path).read_bytes()
    exercise = (Materials(task, snapshot).agent_tree / CORE).read_bytes()
    updated = task.model_copy(
        update={
            "task_id": "tally-total-chained",
            "instance_id": "tally-total-chained",
            "workspace_patch": make_patch({CORE: core, path: old}, {CORE: exercise, path: None}),
            "test_patch": make_patch({path: None}, {path: HIDDEN.encode()}),
            "FAIL_TO_PASS": [f"{path}::test_total[{i}-{3 * i + 20}]" for i in range(1, 8)],
        }
    )
    recorded = with_record(updated, snapshot, "out_of_process")
    calls = RecordedCalls.unpack(recorded.pytest.behaviour)
    bare = RecordedCalls(calls.targets, calls.opaque, calls.packages, calls.tests)
    return recorded.model_copy(update={"verifier": recorded.pytest.model_copy(update={"behaviour": bare.pack()})})


def behaviour(task: Task, text: str) -> Grade:
    return grade_of(task, HEAD + text)


def test_who_reads_ahead_finds_no_answer_and_who_computes_is_rewarded(chained: Task) -> None:
    assert behaviour(chained, READER).reward.components["behaviour"] == 0.0
    honest = behaviour(chained, "def total(values):\n    return float(sum(values))\n")
    assert honest.reward.value == 1.0, honest.failures
