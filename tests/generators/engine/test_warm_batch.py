"""Coroutines that wait for trials share one run, and each gets its own results or the error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from etude.errors import SandboxError
from etude.generators.engine.warm_batch import WarmBatch
from etude.generators.engine.warm_suite import Trial, TrialResult


class CountingSuite:
    """Answers each trial with its tests as those that passed; the state is how many trials each run had."""

    def __init__(self, fail: bool = False) -> None:
        self.sizes: list[int] = []
        self.fail = fail

    async def run(self, trials: Sequence[Trial]) -> list[TrialResult]:
        self.sizes.append(len(trials))
        await asyncio.sleep(0)
        if self.fail:
            raise SandboxError("no room")
        return [TrialResult(frozenset(trial.tests)) for trial in trials]


def together(suite: CountingSuite, needs: Sequence[Sequence[int]]) -> list[list[list[str]] | BaseException]:
    """Return what coroutines got that each ask for so many trials, round after round."""
    batch = WarmBatch(suite)  # type: ignore[arg-type]
    at_work = 0

    async def work(name: int, rounds: Sequence[int]) -> list[list[str]]:
        nonlocal at_work
        answers = []
        for number, size in enumerate(rounds):
            at_work += 1
            assert at_work == 1
            await asyncio.sleep(0)
            at_work -= 1
            trials = [Trial({}, [f"{name}.{number}.{position}"]) for position in range(size)]
            answers.append([*sorted(test for result in await batch.run(trials) for test in result.passed)])
        return answers

    return asyncio.run(batch.together([work(name, rounds) for name, rounds in enumerate(needs)]))


def test_one_run_serves_all_that_wait_and_only_one_works_at_a_time() -> None:
    suite = CountingSuite()
    answers = together(suite, [[2, 1], [1], [], [3, 2, 1]])
    assert answers == [
        [["0.0.0", "0.0.1"], ["0.1.0"]],
        [["1.0.0"]],
        [],
        [["3.0.0", "3.0.1", "3.0.2"], ["3.1.0", "3.1.1"], ["3.2.0"]],
    ]
    assert suite.sizes == [6, 3, 1]


def test_each_that_waits_gets_the_error_of_the_run() -> None:
    answers = together(CountingSuite(fail=True), [[1], [2, 1]])
    assert [str(answer) for answer in answers] == ["no room", "no room"]


def test_trials_outside_of_a_batch_are_made_at_once() -> None:
    suite = CountingSuite()
    batch = WarmBatch(suite)  # type: ignore[arg-type]
    (result,) = asyncio.run(batch.run([Trial({}, ["a"])]))
    assert result.passed == {"a"} and suite.sizes == [1]


@pytest.mark.parametrize("size", [1, 5])
def test_an_error_of_one_coroutine_does_not_stop_the_others(size: int) -> None:
    suite = CountingSuite()
    batch = WarmBatch(suite)  # type: ignore[arg-type]

    async def fails() -> None:
        raise ValueError("mine")

    async def works() -> int:
        return len(await batch.run([Trial({}, ["a"])] * size))

    first, second = asyncio.run(batch.together([fails(), works()]))
    assert str(first) == "mine" and second == size
