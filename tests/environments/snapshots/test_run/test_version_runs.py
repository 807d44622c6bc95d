"""Runs on versions of the source: each is as if it ran alone, and none can speak for another."""

from __future__ import annotations

import asyncio

from etude.environments.sandbox import Sandbox, open_sandbox
from etude.environments.snapshots import Snapshot
from etude.environments.snapshots.test_run.placed_files import write_files
from etude.environments.snapshots.test_run.test_runner import TestRun, run_tests
from etude.environments.snapshots.test_run.versions.version_runs import run_versions

CORE, TESTS = "src/tally/core.py", "tests/test_more.py"
TEXT = """import tally.core


def test_total():
    assert tally.core.total([1, 2]) == 3


def test_again():
    assert tally.core.total([]) == 0
"""


def core(total: str) -> dict[str, bytes | None]:
    text = f"def total(values):\n    {total}\n\n\ndef largest(values):\n    return max(values)\n"
    return {CORE: text.encode()}


def runs(
    snapshot: Snapshot, versions: list[dict[str, bytes | None]], tests: str = TEXT, **options: object
) -> list[TestRun]:
    async def run() -> list[TestRun]:
        sandbox: Sandbox = await open_sandbox(snapshot.layers(snapshot.tree))
        try:
            await write_files(sandbox, {TESTS: tests.encode()})
            settings = snapshot.verifier.model_copy(update={"args": [TESTS]})
            return await run_versions(sandbox, settings, versions, **options)  # type: ignore[arg-type]
        finally:
            await sandbox.close()

    return asyncio.run(run())


def outcomes(run: TestRun) -> dict[str, str]:
    return {test.partition("::")[2]: outcome.outcome for test, outcome in run.outcomes.items()}


def decisions(run: TestRun) -> dict[str, tuple[str, ...]]:
    """Return what a run decided, without messages, which hold addresses."""
    return {test: (item.outcome, item.when, item.exception, item.where) for test, item in run.outcomes.items()}


def test_each_version_has_its_own_run(snapshot: Snapshot) -> None:
    results = runs(
        snapshot, [core("return sum(values)"), core("return 0"), core("return 3"), core("return sum(values)")]
    )
    assert [outcomes(run) for run in results] == [
        {"test_total": "passed", "test_again": "passed"},
        {"test_total": "failed", "test_again": "passed"},
        {"test_total": "passed", "test_again": "failed"},
        {"test_total": "passed", "test_again": "passed"},
    ]
    assert all(run.complete and not run.violations for run in results)


def test_a_run_of_versions_agrees_with_runs_of_their_own(snapshot: Snapshot) -> None:
    versions = [core(total) for total in ("return sum(values)", "return 1 // 0", "return len(values) + 1", "x =")]

    async def alone() -> list[TestRun]:
        results = []
        sandbox = await open_sandbox(snapshot.layers(snapshot.tree))
        try:
            for version in versions:
                await sandbox.reset()
                await write_files(sandbox, {TESTS: TEXT.encode(), **version})
                settings = snapshot.verifier.model_copy(update={"args": [TESTS]})
                results.append(await run_tests(sandbox, settings))
        finally:
            await sandbox.close()
        return results

    expected = asyncio.run(alone())
    for together, apart in zip(runs(snapshot, versions), expected, strict=True):
        assert decisions(together) == decisions(apart) and together.order == apart.order
        assert together.complete == apart.complete and together.collect_errors.keys() == apart.collect_errors.keys()


def test_the_order_of_tests_can_be_reversed(snapshot: Snapshot) -> None:
    (run,) = runs(snapshot, [core("return sum(values)")], order="reversed")
    assert [test.partition("::")[2] for test in run.order] == ["test_again", "test_total"]


def test_a_version_that_never_ends_or_leaves_does_not_stop_the_others(snapshot: Snapshot) -> None:
    versions = [core("while True: pass"), core("import os; os._exit(0)"), core("return sum(values)")]
    endless, left, right = runs(snapshot, versions, timeout_s=1.0)
    assert not endless.complete and endless.running.endswith("test_total")
    assert not left.complete and left.running.endswith("test_total")
    assert right.complete and len(right.passed) == 2


def test_a_version_may_add_and_delete_files(snapshot: Snapshot) -> None:
    more = b"def total(values):\n    return sum(values)\n\n\ndef largest(values):\n    return max(values)\n"
    imports = b"from .more import largest, total\n"
    with_more = {CORE: imports, "src/tally/more.py": more}
    without = {CORE: imports, "src/tally/more.py": None}
    first, second, third = runs(snapshot, [with_more, without, with_more])
    assert first.complete and third.complete and len(third.passed) == 2
    assert not second.order and second.collect_errors


def test_no_run_finds_the_keys_or_versions_of_another(snapshot: Snapshot) -> None:
    secret = "return sum(values)  # the other version"
    tests = (
        "import gc, os, sys\n\n\ndef test_looks():\n"
        "    texts = [item for item in gc.get_objects() if isinstance(item, (list, dict))]\n"
        "    held = [repr(value)[:10000] for item in texts \n"
        "            for value in (item.values() if isinstance(item, dict) else item)\n"
        "            if isinstance(value, (bytes, bytearray, str))]\n"
        "    assert not [text for text in held if 'the other ' + 'version' in text]\n"
    )
    first, _ = runs(snapshot, [core("return 0"), core(secret)], tests)
    assert outcomes(first) == {"test_looks": "passed"}
