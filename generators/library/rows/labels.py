"""Labels: which tests a row's official lists mean here, and what the runs say about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ....environments.snapshots.test_run.test_runner import TestRun

_NETWORK = re.compile(
    r"ConnectionError|ConnectTimeout|MaxRetryError|NewConnectionError|gaierror|Name or service not known|"
    r"Temporary failure in name resolution|Network is unreachable|ProxyError|URLError|ConnectionRefused",
    re.IGNORECASE,
)
_DJANGO_LABEL = re.compile(r"^(\w+) \(([\w.]+)\)$")


@dataclass(frozen=True)
class Labels:
    """FAIL_TO_PASS and PASS_TO_PASS as several runs give them, and the tests that disagree with themselves."""

    fail_to_pass: list[str]
    """Fail (or are missing) in every run before the solution, pass in every run after it."""
    pass_to_pass: list[str]
    """Pass in every run."""
    flaky: list[str]
    """Have different outcomes in runs of the same code."""


def measure_labels(before: Sequence[TestRun], after: Sequence[TestRun]) -> Labels:
    """Return the labels that the runs before and after the solution give, in the order of the first run after it."""
    tests = dict.fromkeys(test for run in (*after, *before) for test in run.order)
    repeated = {test for run in (*after, *before) for test in run.repeated}
    labels = Labels([], [], sorted(repeated))
    for test in tests:
        if test in repeated:
            continue
        old, new = _passes(before, test), _passes(after, test)
        if len(set(old)) > 1 or len(set(new)) > 1:
            labels.flaky.append(test)
        elif new[0]:
            (labels.pass_to_pass if old[0] else labels.fail_to_pass).append(test)
    return labels


def _passes(runs: Sequence[TestRun], test: str) -> list[bool]:
    return [test in run.outcomes and run.outcomes[test].outcome == "passed" for run in runs]


@dataclass(frozen=True)
class Difference:
    """What an official list says that the runs do not, and the reverse."""

    reproduced: int = 0
    """Official labels that the runs give too."""
    not_reproduced: dict[str, str] = field(default_factory=dict)
    """Official label -> what the test did instead."""
    unlisted: list[str] = field(default_factory=list)
    """Tests that the runs give and that no official label means."""


def compare(official: Iterable[str], measured: Sequence[str], before: TestRun, after: TestRun) -> Difference:
    """Compare an official list with the measured one; ``before`` and ``after`` give the outcomes of a test."""
    names = _Names(after, before)
    present = set(measured)
    meant: set[str] = set()
    missing: dict[str, str] = {}
    reproduced = 0
    for label in dict.fromkeys(official):
        tests = names.tests(label)
        meant.update(tests)
        wrong = [test for test in tests if test not in present]
        if tests and not wrong:
            reproduced += 1
        else:
            missing[label] = _what_happened(wrong[0], before, after) if wrong else "no such test"
    return Difference(reproduced, missing, [test for test in measured if test not in meant])


def needs_network(runs: Iterable[TestRun], tests: Iterable[str]) -> bool:
    """Return whether a failure of one of the tests names a connection that a sandbox does not have."""
    chosen = list(tests)
    for run in runs:
        for test in chosen:
            outcome = run.outcomes.get(test)
            if outcome is not None and outcome.outcome != "passed" and _NETWORK.search(_text(outcome)):
                return True
    return False


class _Names:
    """Tests by the names that SWE-bench's log parsers give them.

    Those cut pytest's ids at the first space, name sympy's tests by their function alone, and Django's by
    ``method (module.Class)`` or, where a docstring exists, by its first line.
    """

    def __init__(self, *runs: TestRun) -> None:
        self._by_name: dict[str, dict[str, None]] = {}
        for run in runs:
            for test in [*run.order, *run.repeated]:
                for name in (test, test.split(" ")[0], *self._aliases(test, run)):
                    self._by_name.setdefault(name, {})[test] = None

    @staticmethod
    def _aliases(test: str, run: TestRun) -> list[str]:
        if "::" in test:
            function = test.rpartition("::")[2]
            return [function] if test.count("::") == 1 else []
        place, _, method = test.rpartition(".")
        return [f"{method} ({place})", *([run.descriptions[test]] if test in run.descriptions else [])]

    def tests(self, label: str) -> list[str]:
        """Return the tests that an official label means; none when no test has that name."""
        names = [label]
        if django := _DJANGO_LABEL.match(label):  # Python 3.11 repeats the method behind the class
            names.append(f"{django[1]} ({django[2].removesuffix('.' + django[1])})")
        return next((list(self._by_name[name]) for name in names if name in self._by_name), [])


def named_tests(labels: Iterable[str], *runs: TestRun) -> list[str]:
    """Return the tests that the official labels mean."""
    names = _Names(*runs)
    return [test for label in labels for test in names.tests(label)]


def _what_happened(test: str, before: TestRun, after: TestRun) -> str:
    return f"before: {_outcome(test, before)}; after: {_outcome(test, after)}"


def _outcome(test: str, run: TestRun) -> str:
    outcome = run.outcomes.get(test)
    if outcome is None:
        return "reported more than once" if test in run.repeated else "missing"
    return f"{outcome.outcome} {_text(outcome)}".strip()[:200]


def _text(outcome: object) -> str:
    parts = (getattr(outcome, "exception", ""), getattr(outcome, "message", ""))
    return " ".join(part for part in parts if part)
