"""Screening: candidates that no test notices are rejected after one warm run, before the full proof of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...environments.snapshots.test_run.test_runner import TestRun
from ..base import Candidate, Rejection
from .warm_suite import TIMEOUT, Trial, TrialResult, WarmSuite


@dataclass(frozen=True)
class Screened:
    """What a warm run says about a candidate; without ``rejection`` and ``run`` it says nothing."""

    rejection: Rejection | None = None
    """Why the candidate cannot become a task."""
    run: TestRun | None = None
    """The run of the tests that run the changed code."""


async def screen(candidates: Sequence[Candidate], suite: WarmSuite) -> list[Screened]:
    """Return what one warm run says about each candidate. Raises SandboxError when the sandbox fails."""
    trials = {number: trial for number, item in enumerate(candidates) if (trial := trial_of(item)) is not None}
    results = dict(zip(trials, await suite.run(list(trials.values())), strict=True))
    return [
        _screened(trials[number], results[number]) if number in trials else Screened()
        for number in range(len(candidates))
    ]


def trial_of(candidate: Candidate) -> Trial | None:
    """Return the trial of a candidate that changes Python files alone, None for any other.

    A step breaks tests of later steps too, and a migration may break all of them: the whole suite has to show that.
    """
    tests = candidate.hidden_tests
    contents = {path: content for path, content in candidate.exercise.items() if content is not None}
    is_code = all(path.endswith(".py") for path in contents) and len(contents) == len(candidate.exercise)
    if candidate.migration or tests.step or candidate.blocked or candidate.deliverable:
        return None
    if tests.rewritten or tests.added or not contents or not is_code:
        return None
    return Trial(contents, tests.affected)


def _screened(trial: Trial, result: TrialResult) -> Screened:
    if result.noticed is False:
        detail = f"{len(trial.tests)} tests run the changed code, all of them still pass"
        return Screened(Rejection("v1_no_test_fails", detail))
    if result.cause == TIMEOUT:
        detail = f"{len(trial.tests)} tests that run the changed code take more than ten times as long, or do not end"
        return Screened(Rejection("v1_too_slow", detail))
    return Screened(run=None if result.cause else result.as_run())
