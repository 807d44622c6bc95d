"""Observation of tests: which of them run an examined function, and through which other functions.

The tests run once in the trusted tree, where the functions run as usual and are only watched. Nothing is encoded, so
this is cheap even for whole test suites.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ....snapshots.test_run.test_runner import Crossing, TestRun
from ..judging.examination import Examination
from ..processes.programs import boundary_parts


async def entry_functions(examination: Examination, tests: Sequence[str]) -> list[str]:
    """Return the functions that tests call and that run an examined one, if they can be replaced.

    Raises SandboxError when the sandbox fails.
    """
    everything = await asyncio.to_thread(examination.with_entries, None)
    run = await _watched(examination, tests, everything.files)
    return sorted({name for record in run.crossings.values() for name in record["entries"]})


async def running_tests(examination: Examination, tests: Sequence[str]) -> list[str]:
    """Return the tests that run an examined function or do not end.

    Raises SandboxError when the sandbox fails.
    """
    targets = set(examination.examined.targets)
    run = await _watched(examination, tests, examination.examined.files)
    return [test for test in tests if test not in run.crossings or targets & {*run.crossings[test]["reached"]}]


async def _watched(examination: Examination, tests: Sequence[str], files: Mapping[str, bytes]) -> TestRun:
    targets = examination.examined.targets
    job: dict[str, Any] = {"opaque": [], "packages": [], "targets": targets, "is_observing": True}
    return await examination.trusted_process(tests, Crossing(boundary_parts(), job), files)
