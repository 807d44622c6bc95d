"""Allowance of a solution in one grade: a killed process is started again a few times in all."""

from __future__ import annotations

import asyncio

import pytest

from etude.environments.grading.out_of_process.judging.allowance import TRIES, Allowance, OutOfTime
from etude.environments.sandbox import ExecResult
from etude.errors import GraderError

KILLED = ExecResult(exit_code=137, output=b"", seconds=1.0)
ENDED = ExecResult(exit_code=0, output=b"", seconds=1.0)


class Runs:
    """Runs that end as given, one after the other, and then as the last one."""

    def __init__(self, *results: ExecResult) -> None:
        self.results = list(results)
        self.count = 0

    async def __call__(self) -> ExecResult | None:
        self.count += 1
        return self.results[min(self.count, len(self.results)) - 1]


def test_a_process_that_was_killed_once_is_started_again() -> None:
    runs, own = Runs(KILLED, ENDED), Runs(ENDED)
    assert asyncio.run(Allowance().undisturbed(runs, own)) is ENDED
    assert (runs.count, own.count) == (2, 0)


def test_a_solution_that_kills_its_process_is_not_started_again_in_every_round() -> None:
    allowance, runs, own = Allowance(), Runs(KILLED), Runs(ENDED)
    for number in range(4):
        assert asyncio.run(allowance.undisturbed(runs, own)) is KILLED
        assert (runs.count, own.count) == (TRIES + number, 1)


def test_a_machine_that_kills_the_tasks_own_solution_too_fails_no_solution() -> None:
    with pytest.raises(GraderError, match="find what kills processes on this machine"):
        asyncio.run(Allowance().undisturbed(Runs(KILLED), Runs(KILLED)))


def test_the_time_of_all_processes_is_added_up() -> None:
    allowance, runs = Allowance(seconds=2.5), Runs(ENDED)
    for _ in range(2):
        assert asyncio.run(allowance.undisturbed(runs, runs)) is ENDED
    with pytest.raises(OutOfTime):
        asyncio.run(allowance.undisturbed(runs, runs))
