"""Limits of test runs: CPU time decides, and a limit that an overloaded machine causes is not a verdict."""

from __future__ import annotations

import os

import pytest

from etude.environments.snapshots import TestRun
from etude.errors import OutOfTime
from etude.generators.validation.limits import attempt_limit, conclusive


def run(*, cpu_seconds: float = 1.0, timed_out: bool = False) -> TestRun:
    return TestRun({}, [], not timed_out, "", seconds=100 * cpu_seconds, cpu_seconds=cpu_seconds, timed_out=timed_out)


def test_the_limit_of_an_attempt_is_the_same_when_the_solution_waited_for_a_processor():
    assert attempt_limit(run(cpu_seconds=4.0), timeout_s=300.0) == 14.0
    assert attempt_limit(run(cpu_seconds=4.0), timeout_s=10.0) == 10.0


def test_a_run_that_ended_at_a_limit_is_a_verdict_when_the_machine_is_merely_busy(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (5.0 * (os.cpu_count() or 1), 0.0, 0.0))
    hanging = run(timed_out=True)
    assert conclusive(hanging) is hanging


def test_a_run_that_ended_at_a_limit_is_not_a_verdict_when_the_machine_is_overloaded(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (50.0 * (os.cpu_count() or 1), 0.0, 0.0))
    with pytest.raises(OutOfTime, match="overloaded; run the same command again"):
        conclusive(run(timed_out=True))
    finished = run()
    assert conclusive(finished) is finished
