"""First run of a suite: what keeps it from ending is dropped until it ends.

Dropped are pytest options that nothing defines, plugins that are not installed, tests that hang, and the last test
files of a suite that takes too long.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

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
    """Run the suite until pytest accepts the options and the run ends; return the verifier and the last run.

    Each change is added to ``notes``. The last run is not complete when pytest fails otherwise, or too many tests hang.
    """
    dropped, whole = 0, True
    while True:
        result = run(verifier)
        unknown = unknown_options(result)
        if unknown and without_words(verifier.options, unknown) != verifier.options:
            notes.append(f"pytest options dropped: {' '.join(unknown)}")
            changes: dict[str, Any] = {"options": without_words(verifier.options, unknown)}
        elif (plugin := missing_plugin(result)) in verifier.plugins:
            notes.append(f"pytest plugin {plugin} dropped: it is not installed")
            changes = {"plugins": [name for name in verifier.plugins if name != plugin]}
        elif dropped < MOST_DROPPED and (reason := hang_reason(result, verifier.timeout_s)):
            dropped += 1
            notes.append(f"{result.running} dropped: {reason}")
            changes = {"options": with_words(verifier.options, [f"--deselect={result.running}"])}
        elif whole and result.timed_out and (files := first_files(result)):
            whole = False
            notes.append(f"the suite takes too long: only the tests in {', '.join(files)} are used")
            changes = {"args": files}
        else:
            return verifier, result
        verifier = verifier.model_copy(update=changes)


def unknown_options(run: TestRun) -> list[str]:
    """Return the command-line words that pytest did not accept."""
    match = re.search(r"unrecognized arguments: ([^|\n]+)", f"{run.cause}\n{run.output.decode('utf-8', 'replace')}")
    return match.group(1).split() if match else []


def missing_plugin(run: TestRun) -> str:
    """Return the plugin named with ``-p`` whose module does not exist; empty when there is none."""
    text = f"{run.cause}\n{run.output.decode('utf-8', 'replace')}"
    match = re.search(r'Error importing plugin "([\w.-]+)": No module named', text)
    return match.group(1) if match else ""


def first_files(run: TestRun) -> list[str]:
    """Return the files of the first half of the tests that a stopped run has finished, without the last file."""
    counts: dict[str, int] = {}
    for test in run.order:
        file = test.partition("::")[0]
        counts[file] = counts.get(file, 0) + 1
    counts.pop((run.running or next(reversed(run.order), "")).partition("::")[0], None)
    files, remaining = list[str](), len(run.order) / 2
    for file, count in counts.items():
        if files and count > remaining:
            break
        files.append(file)
        remaining -= count
    return files


def hang_reason(run: TestRun, timeout_s: float) -> str:
    """Return why the test that was running must be dropped; empty when none was, or the whole suite is too slow."""
    if not run.running:
        return ""
    if run.test_limit:
        return f"it used more than {TEST_CPU_S:.0f} s of CPU time"
    return "it hangs" if run.timed_out and run.cpu_seconds < timeout_s else ""
