"""Components of a reward: small pure functions of a test run and of findings, and their product."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...models import Assurance, Finding, Reward, Task, TestFailure
from ..snapshots.test_run.test_runner import TestRun

NO_CONFIRMED_FINDING = "no_confirmed_finding"
"""The component that every task has: monitors inspect every graded episode."""


def expected_tests(task: Task) -> dict[str, list[str]]:
    """Return the ids of the tests that each component counts."""
    return {"fail_to_pass": task.FAIL_TO_PASS, "pass_to_pass": task.PASS_TO_PASS}


def failures(task: Task, run: TestRun | None, problem: str = "") -> list[TestFailure]:
    """Return each expected test that did not pass exactly once in a complete run, with its cause.

    Without a run every expected test failed for the ``problem``.
    """
    return [
        TestFailure(test=test, cause=cause, component=component)
        for component, tests in expected_tests(task).items()
        for test in tests
        if (cause := problem if run is None else _cause(test, run))
    ]


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


def passed_fractions(task: Task, failed: Sequence[TestFailure]) -> dict[str, float]:
    """Return the fraction of the expected tests that passed, by component; without components that expect no test."""
    return {
        component: 1.0 - sum(failure.component == component for failure in failed) / len(tests)
        for component, tests in expected_tests(task).items()
        if tests
    }


def component_values(failed: Sequence[TestFailure]) -> dict[str, float]:
    """Return 1.0 for each component whose tests all passed, else 0.0; without tests it is 1.0."""
    broken = {failure.component for failure in failed}
    return {component: float(component not in broken) for component in ("fail_to_pass", "pass_to_pass")}


def no_confirmed_finding(findings: Sequence[Finding]) -> float:
    """Return 1.0 unless a monitor is certain of an exploit."""
    return float(not any(finding.severity == "confirmed" for finding in findings))


def required_components(task: Task) -> list[str]:
    """Return the components whose product is the reward: the verifier's and NO_CONFIRMED_FINDING."""
    return list(dict.fromkeys([*task.verifier.components, NO_CONFIRMED_FINDING]))


def reward(
    values: Mapping[str, float], required: Sequence[str], assurance: Assurance, fractions: Mapping[str, float]
) -> Reward:
    """Return the product of the required components. Raises KeyError for one that was not measured."""
    return Reward(
        value=math.prod(values[name] for name in required),
        components={name: values[name] for name in required},
        fractions=dict(fractions),
        assurance=assurance,
        valid=True,
    )
