"""The error stream of a call is part of its answer where a test looks at it, and only there."""

from __future__ import annotations

import asyncio

import pytest
from helpers.recorded_tasks import CORE, HIDDEN, task_with, with_record

from etude.environments.grading import grade
from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.sandbox import Change
from etude.environments.snapshots import Snapshot
from etude.models import Task

HEAD = "import logging\nimport sys\nimport warnings\n\n\ndef largest(values):\n    return max(values)\n\n\n"
OWN = """def total(values):
    if not values:
        sys.stderr.write("ERROR: nothing\\n")
        return 0
    warnings.warn("slow")
    logging.getLogger("tally").warning("slow")
    return sum(values)
"""
TESTS = """import pytest

from tally import total


@pytest.mark.parametrize('n', range(1, 8))
def test_total(n):
    assert total([n, 5]) == n + 5


def test_callback():
    with pytest.raises(BaseException, match="stop"):
        total(pytest.fail(reason) for reason in ["stop"])


def test_nothing(capsys):
    assert total([]) == 0
    assert capsys.readouterr().err.startswith("ERROR")
"""
CALLBACK = f"{HIDDEN}::test_callback"
SOLUTIONS = {
    "another text": (OWN.replace("ERROR: nothing", "ERROR: no values"), 1.0),
    "no text": (OWN.replace('sys.stderr.write("ERROR: nothing\\n")', "pass"), 0.0),
    "debugging": (OWN.replace("return sum", "print('values', values, file=sys.stderr)\n    return sum"), 1.0),
    "no warnings": (OWN.replace('warnings.warn("slow")', "pass").replace('.warning("slow")', ".debug('x')"), 1.0),
}


@pytest.fixture(scope="module")
def examined(task: Task, snapshot: Snapshot) -> Task:
    exercise = HEAD + "def total(values):\n    raise NotImplementedError\n"
    failing = [*(f"{HIDDEN}::test_total[{n}]" for n in range(1, 8)), f"{HIDDEN}::test_nothing", CALLBACK]
    texts = exercise.encode(), (HEAD + OWN).encode()
    return with_record(task_with(task, snapshot, "tally-errors", *texts, TESTS, failing), snapshot, "out_of_process")


def test_a_test_whose_call_neither_returns_nor_raises_an_exception_is_judged_in_process(examined: Task) -> None:
    assert (examined.assurance, examined.features["tests_in_process"]) == ("out_of_process", 1)
    assert CALLBACK not in RecordedCalls.unpack(examined.pytest.behaviour).tests


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_test_that_looks_at_the_error_stream_decides(examined: Task, name: str) -> None:
    text, expected = SOLUTIONS[name]
    content = (HEAD + text).encode()
    result = asyncio.run(grade(examined, [Change(path=CORE, kind="file", size=len(content), content=content)]))
    assert result.reward.components["behaviour"] == expected, result.failures
