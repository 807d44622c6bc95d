"""Time limits of test runs, and whether a limit that was reached says something about the candidate.

All limits are multiples of ``run_seconds`` of an earlier run, so that they mean the same everywhere.
"""

from __future__ import annotations

import os

from ...environments.snapshots import Snapshot
from ...environments.snapshots.test_run.test_runner import TestRun
from ...errors import OutOfTime, Rejected

SUITE_EXTRA_S, SUITE_FACTOR = 20.0, 10.0
"""A run of the suite may take so many seconds more than so many times the baseline."""
ATTEMPT_EXTRA_S, ATTEMPT_FACTOR = 2.0, 3.0
"""A wrong solution may take so many seconds more than so many times the solution."""


def run_seconds(run: TestRun) -> float:
    """Return how long a run took, in the unit of ``timeout_s`` of ``run_tests``."""
    return run.seconds


def suite_limit(snapshot: Snapshot) -> float:
    """Return the limit of one run of the suite in seconds; a hanging candidate must not use the whole timeout."""
    return min(snapshot.verifier.timeout_s, SUITE_EXTRA_S + SUITE_FACTOR * snapshot.baseline.seconds)


def attempt_limit(solution: TestRun, timeout_s: float) -> float:
    """Return the limit in seconds of one run of a wrong solution, given the run of the right one."""
    return min(timeout_s, ATTEMPT_EXTRA_S + ATTEMPT_FACTOR * run_seconds(solution))


def incomplete(reason: str, cause: str, where: str = "") -> Rejected:
    """Return the rejection for ``cause``; a run that was out of time may be the machine's fault."""
    kind = OutOfTime if cause.startswith("timeout") else Rejected
    return kind(reason, where + (cause or "no cause is known"))


def is_overloaded() -> bool:
    """Return whether more processes wait for a processor than there are processors, averaged over a minute."""
    return os.getloadavg()[0] > (os.cpu_count() or 1)
