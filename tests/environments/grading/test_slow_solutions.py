"""Solutions that sleep or kill their process: a grade asks them a few times, and honest ones are accepted."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.recorded_tasks import grade_of, with_record

from etude.environments.grading import in_process
from etude.environments.grading.out_of_process.judging import allowance, examination
from etude.environments.sandbox import ExecResult
from etude.environments.sandbox.backends.command_sandbox import CommandSandbox
from etude.environments.snapshots import Snapshot
from etude.models import Task

HEAD = (
    "import os, time\nfrom .words import LIMIT\n\n\ndef largest(values):\n    return min(max(values), LIMIT)\n\n\n"
    "def total(values):\n"
)
SOLUTIONS = {
    "sleeps at each call": "    time.sleep(4)\n    return sum(values)\n",
    "ends its process at each call": "    os._exit(0)\n",
}
KILLED = {
    "kills itself at each call": "    os.kill(os.getpid(), 9)\n",
    "sleeps and kills itself": "    time.sleep(0.3)\n    os.kill(os.getpid(), 9)\n",
}


@pytest.fixture(scope="module")
def recorded(task: Task, snapshot: Snapshot) -> Task:
    return with_record(task, snapshot)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[ExecResult]:
    """Let processes be idle for a second, and return the list of those that answer calls."""
    for module in (in_process, examination):
        monkeypatch.setattr(module, "IDLE_SECONDS", 1.0)
    results: list[ExecResult] = []
    plain_exec = CommandSandbox.exec

    async def noted(self: CommandSandbox, command: Any, **options: Any) -> ExecResult:
        result = await plain_exec(self, command, **options)
        if all(any(name in word for word in command) for name in ("_write_files()", "_program()")):
            results.append(result)
        return result

    monkeypatch.setattr(CommandSandbox, "exec", noted)
    return results


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_grade_asks_a_solution_without_answers_only_twice(
    recorded: Task, processes: list[ExecResult], name: str
) -> None:
    at_first = 2  # the calls of tests and the held-out calls are answered in two sandboxes
    assert grade_of(recorded, HEAD + SOLUTIONS[name]).reward.value == 0.0
    assert 0 < len(processes) <= at_first + 1
    assert sum(result.seconds for result in processes) < 10


@pytest.mark.parametrize("name", KILLED)
def test_a_grade_asks_a_solution_that_is_killed_a_few_times(
    recorded: Task, processes: list[ExecResult], name: str
) -> None:
    """What kills it is not known, so that it is asked again, and then the task's own solution."""
    asked = 2 + (allowance.TRIES - 1) + 1  # by tests and held-out calls, after each kill, and what has no answers
    assert grade_of(recorded, HEAD + KILLED[name]).reward.value == 0.0
    assert 0 < len(processes) <= asked + 1
    assert sum(result.seconds for result in processes) < 10


def test_a_grade_accepts_a_solution_that_sleeps_for_a_moment(recorded: Task, processes: list[ExecResult]) -> None:
    assert grade_of(recorded, HEAD + "    time.sleep(0.05)\n    return sum(values)\n").reward.value == 1.0
    assert len(processes) == 2


@pytest.mark.parametrize(("suite_seconds", "expected"), [(None, 180.0), (0.5, 60.0), (5.0, 100.0), (50.0, 180.0)])
def test_the_allowance_grows_with_the_time_of_the_suite(suite_seconds: float | None, expected: float) -> None:
    assert allowance.allowed_seconds(suite_seconds) == expected


def test_a_solution_that_ignores_ended_processes_is_accepted(recorded: Task) -> None:
    ignore = "import os, signal, time\n\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    ignoring = HEAD.replace("import os, time\n", ignore)
    grade = grade_of(recorded, ignoring + "    return sum(values)\n")
    assert grade.reward.value == 1 and grade.failures == []
