"""Limits of test runs, in seconds of CPU time, so that a verdict does not depend on the load of the machine.

``run_tests`` and the sandbox end a run that is idle, or far beyond its limit in wall time, too. A run that waits for a
processor can reach these limits only on a machine with ``OVERLOAD`` times as many processes as processors.
"""

from __future__ import annotations

import os

from ...environments.snapshots import Snapshot
from ...environments.snapshots.test_run.test_runner import TestRun
from ...errors import OutOfTime

OVERLOAD = 10.0
SUITE_EXTRA_S, SUITE_FACTOR = 20.0, 10.0
"""A run of the suite may take SUITE_EXTRA_S seconds and SUITE_FACTOR times as long as the baseline."""
ATTEMPT_EXTRA_S, ATTEMPT_FACTOR = 2.0, 3.0
"""A wrong solution may take ATTEMPT_EXTRA_S seconds and ATTEMPT_FACTOR times as long as the right one."""


def suite_limit(snapshot: Snapshot) -> float:
    """Return the limit of one run of the suite; a hanging candidate must not use the whole timeout."""
    return min(snapshot.verifier.timeout_s, SUITE_EXTRA_S + SUITE_FACTOR * snapshot.baseline.seconds)


def attempt_limit(solution: TestRun, timeout_s: float) -> float:
    """Return the limit of one run of a wrong solution, given the run of the right one."""
    return min(timeout_s, ATTEMPT_EXTRA_S + ATTEMPT_FACTOR * solution.cpu_seconds)


def conclusive(run: TestRun) -> TestRun:
    """Return the run. Raises OutOfTime when a limit ended it on an overloaded machine."""
    if run.timed_out:
        refuse_overload()
    return run


def refuse_overload() -> None:
    """Raise OutOfTime when the machine is overloaded, so that a limit says nothing about the candidate."""
    if os.getloadavg()[0] > OVERLOAD * (os.cpu_count() or 1):
        raise OutOfTime(
            "a test run ended at a limit because this machine is overloaded; run the same command again when it is "
            "quiet to resume"
        )
