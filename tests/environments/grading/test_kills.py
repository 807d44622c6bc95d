"""Grades while processes are killed from outside: never a score that the agent's code did not earn."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from helpers.recorded_tasks import with_record

from etude.environments.grading import grade
from etude.environments.sandbox import Change
from etude.environments.snapshots import Snapshot
from etude.errors import GraderError, SandboxError, SnapshotError
from etude.models import FileChange, Grade, Task

CORE = "src/tally/core.py"
SOLVED = """from .words import LIMIT
import time
time.sleep(0.8)


def total(values):
    return sum(values)


def largest(values):
    return min(max(values), LIMIT)
"""


def parents(pid: int) -> Iterator[int]:
    """Iterate over the ancestors of a process, nearest first."""
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return
        yield pid


def graded_processes() -> list[int]:
    """Return the sandboxed interpreters that run tests below this process, each after what started it."""
    outcome = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(b"python\0-c\0import sys; sys.path") and os.getpid() in parents(int(folder.name)):
            outcome.append(int(folder.name))
    return outcome


def monitor_of(pid: int) -> int:
    """Return the bwrap process outside the sandbox that watches over an interpreter in it."""
    return [ancestor for ancestor in parents(pid) if b"bwrap" in Path(f"/proc/{ancestor}/cmdline").read_bytes()][-1]


@contextmanager
def running_beside(work: Callable[[], None], stopped: threading.Event) -> Iterator[None]:
    """Run ``work`` in a thread until the block ends, which ``stopped`` tells it."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


@contextmanager
def killer(times: int, victim: Callable[[int], int] = lambda pid: pid, after_s: float = 0.0) -> Iterator[list[int]]:
    """Kill what belongs to the first ``times`` graded interpreters, ``after_s`` seconds after each appears.

    Yields the list of interpreters that were killed.
    """
    killed: list[int] = []
    stopped = threading.Event()

    def kill() -> None:
        while len(killed) < times and not stopped.wait(0.01):
            for pid in set(graded_processes()) - set(killed):
                stopped.wait(after_s)
                os.kill(victim(pid), signal.SIGKILL)
                killed.append(pid)

    with running_beside(kill, stopped):
        yield killed


def graded(task: Task, text: str = SOLVED) -> Grade:
    change = Change(path=CORE, kind="file", size=len(text.encode()), content=text.encode())
    return asyncio.run(grade(task, [change]))


def test_a_grade_is_repeated_when_its_tests_are_killed_once(task: Task) -> None:
    with killer(1) as killed:
        result = graded(task)
    assert len(killed) == 1
    assert (result.reward.value, result.reward.valid, result.failures) == (1.0, True, [])


def test_a_grade_is_repeated_when_the_monitor_of_its_sandbox_is_killed_once(task: Task) -> None:
    with killer(1, monitor_of) as killed:
        result = graded(task)
    assert len(killed) == 1
    assert (result.reward.value, result.reward.valid) == (1.0, True)


def test_a_killed_monitor_is_reported_without_the_output_of_the_tests(task: Task) -> None:
    """Two tests pass, and pytest prints a dot for each, before the third one hangs."""
    hanging = SOLVED.replace(
        "    return sum(values)", "    time.sleep(60 * (len(values) == 10))\n    return sum(values)"
    )
    with killer(99, monitor_of, after_s=3.0), pytest.raises(SandboxError) as raised:
        graded(task, hanging)
    assert str(raised.value) == "bubblewrap failed: killed from outside"


def test_a_grade_is_an_infrastructure_error_when_its_tests_are_killed_again(task: Task) -> None:
    with killer(99) as killed, pytest.raises((GraderError, SandboxError), match="killed") as raised:
        graded(task)
    assert len(killed) == 3, "twice the agent's solution, then the task's own"
    assert "\n" not in str(raised.value)


def test_a_killed_grade_whose_own_solution_cannot_be_read_has_no_score(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> list[FileChange]:
        raise SnapshotError("the tree of the solution is gone")

    monkeypatch.setattr("etude.environments.grading.in_process.own_solution", unreadable)
    with killer(99), pytest.raises((GraderError, SandboxError), match="killed"):
        graded(task)


def test_a_solution_that_kills_its_own_tests_scores_zero(task: Task) -> None:
    result = graded(task, SOLVED.replace("time.sleep(0.8)", "import os\nos.kill(os.getpid(), 9)"))
    assert (result.reward.value, result.reward.valid) == (0.0, True)
    assert result.failures and all(
        failure.cause == "the solution ends the process of its tests" for failure in result.failures
    )


def worker_children() -> list[int]:
    """Return the processes that a sandboxed interpreter has forked to answer the calls of one test."""
    graded = set(graded_processes())
    return [pid for pid in graded if next(parents(pid)) in graded]


@contextmanager
def killer_of_children(times: int) -> Iterator[list[int]]:
    """Kill the first ``times`` processes that answer calls for a second; yields the list of those killed.

    The calls of a test take less, so that these are the processes of held-out calls.
    """
    killed: list[int] = []
    stopped, seen = threading.Event(), dict[int, float]()

    def kill() -> None:
        while len(killed) < times and not stopped.wait(0.02):
            now = time.monotonic()
            for pid in set(worker_children()) - set(killed):
                if now - seen.setdefault(pid, now) < 1.0:
                    continue
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    with running_beside(kill, stopped):
        yield killed


SLOW_TOTAL = SOLVED.replace("time.sleep(0.8)\n", "").replace(
    "    return sum(values)", "    time.sleep(0.3)\n    return sum(values)"
)


@pytest.fixture(scope="module")
def recorded(task: Task, snapshot: Snapshot) -> Task:
    return with_record(task, snapshot)


@pytest.mark.parametrize("kills", [1, 2])
def test_a_killed_process_of_held_out_calls_is_no_wrong_answer(recorded: Task, kills: int) -> None:
    with killer_of_children(kills) as killed:
        result = graded(recorded, SLOW_TOTAL)
    assert len(killed) == kills
    assert (result.reward.value, result.failures) == (1.0, [])


def test_a_solution_that_kills_the_process_of_its_calls_scores_zero(recorded: Task) -> None:
    suicidal = SLOW_TOTAL.replace("time.sleep(0.3)", "__import__('os').kill(__import__('os').getpid(), 9)")
    result = graded(recorded, suicidal)
    assert (result.reward.value, result.reward.valid) == (0.0, True)
