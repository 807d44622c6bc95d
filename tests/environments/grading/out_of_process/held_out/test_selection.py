"""Held-out calls of functions that promise a bool: None and False are the same answer."""

from __future__ import annotations

import pytest
from helpers.recorded_tasks import HIDDEN, grade_of, task_with, with_record

from etude.environments.grading.out_of_process.held_out.answered_inputs import promises_truth_value, without_none
from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.snapshots import Snapshot
from etude.models import Task

HEAD = "import re\n\n\ndef largest(values):\n    return max(values)\n\n\ndef total(text):\n"
STUB = HEAD + "    raise NotImplementedError\n"
OWN = HEAD + "    if len(text) > 6:\n        return False\n    return re.match('[a-z]+[0-9]+$', text) and True\n"
HONEST = HEAD + "    return len(text) <= 6 and re.match('[a-z]+[0-9]+$', text) is not None\n"
WORDS = {"ab1": True, "abc": False, "x22": True, "22x": False, "abcdef12": False, "c3d4": False, "zz9": True}
TESTS = (
    "import pytest\n\nfrom tally import total\n\n\n@pytest.mark.parametrize('text, expected', "
    f"{list(WORDS.items())})\ndef test_total(text, expected):\n    assert bool(total(text)) == expected\n"
)


@pytest.fixture(scope="module")
def promising(task: Task, snapshot: Snapshot) -> Task:
    """Return a task whose solution returns None in place of False, and whose statement promises a bool."""
    failing = [f"{HIDDEN}::test_total[{text}-{expected}]" for text, expected in WORDS.items()]
    other = task_with(task, snapshot, "tally-bool", STUB.encode(), OWN.encode(), TESTS, failing)
    statement = "# Implement `tally.total`\n\n> :returns:\n>     Whether it is a code.\n> :rtype:\n>     bool\n"
    return with_record(other.model_copy(update={"problem_statement": statement}), snapshot)


def test_a_solution_that_returns_a_bool_scores_one_where_the_own_one_returns_none(promising: Task) -> None:
    recorded = RecordedCalls.unpack(promising.pytest.behaviour)
    answers = [call["answer"]["result"] for calls in recorded.inputs.values() for call in calls]
    assert answers and set(answers) <= {True, False}
    assert grade_of(promising, HONEST).reward.value == 1.0
    assert grade_of(promising, OWN).reward.value == 1.0
    assert grade_of(promising, HEAD + "    return text[-1:].isdigit()\n").reward.value == 0.0


@pytest.mark.parametrize(
    ("statement", "is_promised"),
    [
        ("def f(host) -> bool", True),
        ("> :rtype:\n>     bool", True),
        ("> Returns ``True`` if it is one", True),
        ("Returns: bool", True),
        ("def f(host) -> str", False),
        ("Return the match, or None.", False),
        ("-> boolean_mask", False),
    ],
)
def test_the_statement_says_whether_a_bool_is_returned(task: Task, statement: str, is_promised: bool) -> None:
    other = task.model_copy(update={"problem_statement": statement, "interface": []})
    assert promises_truth_value(other) is is_promised


def test_none_is_asked_for_where_a_function_has_other_results_than_bools() -> None:
    def calls(*results: object) -> list[dict[str, object]]:
        return [{"answer": {"result": result, "error": None}} for result in results]

    assert without_none(calls(True, None, False)) == calls(True, False)
    assert without_none(calls("text", None, False)) == calls("text", None, False)
    assert without_none(calls(1, None)) == calls(1, None), "a number is no bool"
    raised = {"answer": {"result": None, "error": [["g", "builtins", "ValueError"], "", []]}}
    assert without_none([*calls(None), raised]) == [raised]
