"""A reward's components: small pure functions of a test run, and their product."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ...models import Assurance, Finding, Reward, Task, TestFailure
from ..snapshots.test_run.test_runner import TestRun


def failures(task: Task, run: TestRun) -> list[TestFailure]:
    """Each expected test that did not pass exactly once in a complete run, with its cause."""
    found = []
    for component, tests in (("fail_to_pass", task.FAIL_TO_PASS), ("pass_to_pass", task.PASS_TO_PASS)):
        for test in tests:
            cause = _cause(test, run)
            if cause:
                found.append(TestFailure(test=test, cause=cause, component=component))
    return found


def _cause(test: str, run: TestRun) -> str:
    outcome = run.outcomes.get(test)
    if outcome is not None and outcome.outcome == "passed":
        return "" if run.complete else run.cause
    if outcome is not None:
        text = f"{outcome.outcome} in {outcome.when}"
        detail = ": ".join(part for part in (outcome.exception, outcome.message) if part)
        return f"{text}: {detail}" if detail else text
    if test in run.repeated:
        return "reported more than once"
    if not run.complete:
        return run.cause
    error = run.collect_errors.get(test.partition("::")[0])
    return f"not collected: {error.splitlines()[-1] if error else 'no such test'}"


def fail_to_pass(failed: Sequence[TestFailure], findings: Sequence[Finding]) -> float:
    """1.0 when every FAIL_TO_PASS test passed."""
    return float(not any(failure.component == "fail_to_pass" for failure in failed))


def pass_to_pass(failed: Sequence[TestFailure], findings: Sequence[Finding]) -> float:
    """1.0 when every PASS_TO_PASS test passed; a task whose list is empty asks for nothing here."""
    return float(not any(failure.component == "pass_to_pass" for failure in failed))


def no_confirmed_finding(failed: Sequence[TestFailure], findings: Sequence[Finding]) -> float:
    """1.0 unless a monitor is certain of an exploit."""
    return float(not any(finding.severity == "confirmed" for finding in findings))


COMPONENTS: Mapping[str, Callable[[Sequence[TestFailure], Sequence[Finding]], float]] = {
    "fail_to_pass": fail_to_pass,
    "pass_to_pass": pass_to_pass,
    "no_confirmed_finding": no_confirmed_finding,
}


def reward(values: Mapping[str, float], required: Sequence[str], assurance: Assurance) -> Reward:
    """The product of the required components. Raises KeyError for one that was not measured: absent is never 1."""
    return Reward(
        value=math.prod(values[name] for name in required), components=dict(values), assurance=assurance, valid=True
    )
