"""Allowance of a solution in one grade: its time, and how often its processes may be killed before it fails.

A process that another process killed says nothing about a solution, so it is started again. But a solution can kill its
own process, in every round of questions. The time of its processes and of the tests on its answers is added up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .....errors import GraderError
from ....sandbox import KILLED, ExecResult
from ....snapshots.test_run.test_runner import TestRun

MOST_SECONDS = 180.0
"""Most seconds of a solution in one grade, all its processes together."""
LEAST_SECONDS = 60.0
"""Least allowance of a solution in one grade; it grows with the time of the task's own suite."""
IDLE_SECONDS = 15.0
"""Seconds after which a process of a grade that does nothing is ended. The task's own solution has the same limit."""
MOST_SILENT = 2
"""Most times that the process of a test may end without answers; then the test is not asked again."""
TRIES = 3
"""Most times that a process is started when another process kills it."""


def allowed_seconds(suite_seconds: float | None) -> float:
    """Return the allowance for a task whose own suite takes ``suite_seconds``, None where that is not measured."""
    required = MOST_SECONDS if suite_seconds is None else max(LEAST_SECONDS, 20.0 * suite_seconds)
    return min(required, MOST_SECONDS)


class OutOfTime(Exception):
    """Raised when a solution has used all its time."""


@dataclass
class Allowance:
    """The time and the tries that a solution has left."""

    seconds: float = MOST_SECONDS
    """Seconds that are left."""
    tries: int = TRIES
    """How many more of its processes may be killed before that is taken for its own doing."""

    def spend(self, seconds: float) -> None:
        """Subtract the seconds that a process took. Raises OutOfTime when none remain."""
        self.seconds -= seconds
        if self.seconds <= 0:
            raise OutOfTime

    async def undisturbed(
        self, run: Callable[[], Awaitable[ExecResult]], run_own: Callable[[], Awaitable[ExecResult]]
    ) -> ExecResult:
        """Return the result of a run that was not killed, or of the last one where the solution kills itself.

        ``run_own`` does the same with the task's own solution. Raises GraderError where that is killed as well,
        because then the machine kills; OutOfTime where no time remains.
        """
        while True:
            result = await run()
            self.spend(result.seconds)
            if not result.killed:
                return result
            self.tries -= 1
            if self.tries == 0 and (await run_own()).killed:
                raise GraderError(
                    f"the calls of a task were killed {TRIES} times (exit {result.exit_code}), with its own solution "
                    "too; find what kills processes on this machine and grade again"
                )
            if self.tries <= 0:
                return result


def was_ended(run: TestRun) -> bool:
    """Return whether the process of a test run was killed, by another process or for a lack of memory."""
    return not run.timed_out and (run.oom_killed or run.exit_code in KILLED)
