"""First run of a suite: pytest options that nothing defines and tests that hang are dropped until the run ends."""

from __future__ import annotations

import re
from collections.abc import Callable

from ....models import PytestVerifier
from ..project.pytest_config import with_words, without_words
from .test_runner import TestRun

TEST_CPU_S = 60.0
"""CPU time that one test may use before it is dropped, in seconds."""
TEST_IDLE_S = 30.0
"""Time for which the suite may be idle before the running test is dropped, in seconds."""
MOST_DROPPED = 5
"""Tests that may be dropped; a suite in which more hang is refused."""


def first_run(
    verifier: PytestVerifier, run: Callable[[PytestVerifier], TestRun], notes: list[str]
) -> tuple[PytestVerifier, TestRun]:
    """Run the suite until pytest accepts the options and no test hangs; return the verifier and the last run.

    Each change is added to ``notes``. The last run is not complete when pytest fails otherwise, or too many tests hang.
    """
    dropped = 0
    while True:
        result = run(verifier)
        unknown = unknown_options(result)
        if unknown and without_words(verifier.options, unknown) != verifier.options:
            notes.append(f"pytest options dropped: {' '.join(unknown)}")
            options = without_words(verifier.options, unknown)
        elif dropped < MOST_DROPPED and (reason := hang_reason(result, verifier.timeout_s)):
            dropped += 1
            notes.append(f"{result.running} dropped: {reason}")
            options = with_words(verifier.options, [f"--deselect={result.running}"])
        else:
            return verifier, result
        verifier = verifier.model_copy(update={"options": options})


def unknown_options(run: TestRun) -> list[str]:
    """Return the command-line words that pytest did not accept."""
    match = re.search(r"unrecognized arguments: ([^|\n]+)", f"{run.cause}\n{run.output.decode('utf-8', 'replace')}")
    return match.group(1).split() if match else []


def hang_reason(run: TestRun, timeout_s: float) -> str:
    """Return why the test that was running must be dropped; empty when none was, or the whole suite is too slow."""
    if not run.running:
        return ""
    if run.test_limit:
        return f"it used more than {TEST_CPU_S:.0f} s of CPU time"
    return "it hangs" if run.timed_out and run.cpu_seconds < timeout_s else ""
