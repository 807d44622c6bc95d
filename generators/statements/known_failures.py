"""A closing remark of statements: tests that fail in this environment with the right code too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..python.hidden_tests import test_file

MAX_FILES = 3
"""Most files that are named."""


def with_known_failures(statement: str, dropped: Mapping[str, str]) -> str:
    """Return the statement with a remark on the tests that do not count because they fail anyway.

    ``dropped`` has the reasons why tests of the Snapshot are not graded, by id. Without failing ones among them the
    statement stays as it is.
    """
    files = Counter(test_file(test) for test, reason in dropped.items() if _fails(reason))
    if not files:
        return statement
    number, counted = files.total(), len(files) > 1
    named = [f"`{path}`" + f" ({count})" * counted for path, count in sorted(files.items())[:MAX_FILES]]
    more = len(files) - len(named)
    named += [f"{more} more {'file' if more == 1 else 'files'}"] * bool(more)
    where = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    tests, they = ("test", "It is") if number == 1 else ("tests", "They are")
    fails = "fails" if number == 1 else "fail"
    return (
        f"{statement.rstrip()}\n\n"
        f"In this environment {number} {tests} of {where} {fails} with the right code too, or not every time. "
        f"{they} not graded.\n"
    )


def _fails(reason: str) -> bool:
    """Return whether a test failed in a run; one whose id is missing from some runs has passed in the others."""
    verdict, _, outcomes = reason.partition(": ")
    return reason in ("failed every time", "error every time") or (
        verdict == "disagrees" and not {"failed", "error"}.isdisjoint(outcomes.split(", "))
    )
