"""What a function writes to the error stream is part of its answer where a test looks at it, and only there."""

from __future__ import annotations

import asyncio

import pytest

from etude.environments.grading import grade
from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.sandbox import Change
from etude.environments.snapshots import Snapshot, make_patch
from etude.environments.tasks.task_trees import Materials
from etude.generators.validation.checks.behaviour import with_behaviour
from etude.models import Task

CORE, HIDDEN = "src/tally/core.py", "tests/test_hidden.py"
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
    core, old = (snapshot.tree / CORE).read_bytes(), (snapshot.tree / HIDDEN).read_bytes()
    exercise = HEAD + "def total(values):\n    raise NotImplementedError\n"
    changed = task.model_copy(
        update={
            "task_id": "tally-errors",
            "instance_id": "tally-errors",
            "patch": make_patch({CORE: exercise.encode()}, {CORE: (HEAD + OWN).encode()}),
            "workspace_patch": make_patch({CORE: core, HIDDEN: old}, {CORE: exercise.encode(), HIDDEN: None}),
            "test_patch": make_patch({HIDDEN: None}, {HIDDEN: TESTS.encode()}),
            "FAIL_TO_PASS": [*(f"{HIDDEN}::test_total[{n}]" for n in range(1, 8)), f"{HIDDEN}::test_nothing", CALLBACK],
            "PASS_TO_PASS": [],
        }
    )
    return asyncio.run(with_behaviour(changed, Materials(changed, snapshot), "out_of_process", "auto"))


def test_a_test_whose_call_neither_returns_nor_raises_an_exception_is_judged_in_process(examined: Task) -> None:
    assert (examined.assurance, examined.features["tests_in_process"]) == ("out_of_process", 1)
    assert CALLBACK not in RecordedCalls.unpack(examined.pytest.behaviour).tests


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_test_that_looks_at_the_error_stream_decides(examined: Task, name: str) -> None:
    text, expected = SOLUTIONS[name]
    content = (HEAD + text).encode()
    result = asyncio.run(grade(examined, [Change(path=CORE, kind="file", size=len(content), content=content)]))
    assert result.reward.components["behaviour"] == expected, result.failures
