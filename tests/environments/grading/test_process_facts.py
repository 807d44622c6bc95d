"""What code can see of its process: an agent's own runs and those of a grade differ in listed facts alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from helpers.process_probe import PROBE, SITUATIONS, Facts, differences, facts_of_runs
from helpers.recorded_tasks import with_record

from etude.environments.snapshots import Snapshot
from etude.models import Task

HEAD = "from .words import LIMIT\n\n\ndef largest(values):\n    return min(max(values), LIMIT)\n\n\n"
ANSWERS = {
    "import": {"command line", "first environment", "modules", "open files", "parent's command line", "stack"},
    "call": {
        *("command line", "first environment", "modules", "open files", "parent's command line", "stack"),
        *("first streams", "own number", "parent's number"),
    },
}
"""Facts in which the process that answers calls differs from ``python -c`` in an agent's shell."""
TOOL = {
    *("argv", "command line", "environment", "first environment", "main module", "main module's place", "modules"),
    *("open files", "original argv", "parent's command line", "path", "stack", "workspace"),
}
"""Facts in which ``run_tests`` differs from ``python -m pytest`` in an agent's shell."""
GRADE = {
    "import": {"modules", "stack", "tests", "workspace"},
    "call": {"environment", "modules", "stack", "tests", "workspace"},
}
"""Facts in which the tests of a grade differ from ``run_tests``: other tests run."""
ANY_NUMBERS = {"own number", "parent's number"}
"""Facts that differ in every two runs of the process backend, which has no numbers of its own."""
SESSIONS = {"leads its group", "leads its session", "parent's command line"}
"""Facts by which the process backend shows that the process of a call is a child."""


@pytest.fixture(params=["bubblewrap", "process"], scope="module")
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def runs(task: Task, snapshot: Snapshot, backend: str) -> Mapping[str, Facts]:
    with pytest.MonkeyPatch.context() as patch:
        return facts_of_runs(with_record(task, snapshot), HEAD + PROBE, backend, patch)


def others(runs: Mapping[str, Facts], backend: str, one: str, other: str) -> dict[str, set[str]]:
    """Return the differing facts by moment, without the numbers of processes where a backend has none of its own."""
    without = ANY_NUMBERS if backend == "process" else set()
    return {moment: set(names) - without for moment, names in differences(runs, one, other).items()}


def test_every_run_gives_its_facts(runs: Mapping[str, Facts]) -> None:
    assert set(runs) == set(SITUATIONS)


def test_the_answering_process_differs_from_python_in_the_shell_in_listed_facts(
    runs: Mapping[str, Facts], backend: str
) -> None:
    found = others(runs, backend, "python -c", "answers of the grade")
    if backend == "process":
        expected = {
            "import": ANSWERS["import"] - SESSIONS,
            "call": (ANSWERS["call"] | SESSIONS) - ANY_NUMBERS,
        }
    else:
        expected = ANSWERS
    assert found == expected


def test_the_tool_differs_from_pytest_in_the_shell_in_listed_facts(runs: Mapping[str, Facts], backend: str) -> None:
    found = others(runs, backend, "python -m pytest", "run_tests")
    expected = TOOL - SESSIONS if backend == "process" else TOOL
    assert found == {"import": expected, "call": expected}


def test_the_tests_of_a_grade_differ_from_the_tool_in_listed_facts(runs: Mapping[str, Facts], backend: str) -> None:
    assert others(runs, backend, "run_tests", "tests of the grade") == GRADE


@pytest.mark.parametrize("fact", ["flags", "hash", "limits", "mask of files", "settings", "user", "built-in names"])
def test_a_fact_is_the_same_in_all_runs(runs: Mapping[str, Facts], fact: str) -> None:
    for moment in ("import", "call"):
        assert len({str(runs[name][moment][fact]) for name in SITUATIONS}) == 1
