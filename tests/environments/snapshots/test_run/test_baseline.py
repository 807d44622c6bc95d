"""Baseline: the tests that a task may expect."""

from __future__ import annotations

from etude.environments.snapshots.test_run.baseline import compare
from etude.environments.snapshots.test_run.test_runner import Outcome, TestRun


def run(*tests: str) -> TestRun:
    return TestRun(outcomes={test: Outcome("passed") for test in tests}, order=list(tests), complete=True, cause="")


def test_compare_drops_all_cases_of_a_test_when_its_parameters_change() -> None:
    passed, dropped = compare(
        [run("a[1]", "a[2]", "b[1]", "c"), run("a[2]", "b[1]", "c"), run("a[2]", "a[3]", "b[1]", "c")]
    )
    assert passed == ["b[1]", "c"]
    assert dropped["a[1]"] == "disagrees: passed, missing, missing"
    assert dropped["a[2]"] == "its test's parameters change between runs"
