"""Separation of tests: one whose arguments show what another one expects is asked in another sandbox.

A solution's process holds the calls of all tests in its sandbox. Where one test calls ``pluralize("ox")`` and another
``pluralize("oxen")``, the arguments of the second contain the answer to the first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..recorded_calls import Call

GROUPS = 2
"""Most sandboxes for the calls of tests."""
_SHORTEST = 2
"""Characters of the shortest text that counts."""
_USUAL = 12
"""Most tests that have a text in their arguments for it to count: a common text says nothing about one test."""
_NUMBER = re.compile(r"[\d./]+")
_CODE = ("g", "e", "fn", "k")
"""Forms that name classes and functions, or hold their code."""


def groups_of_tests(tests: Mapping[str, Sequence[Call]]) -> list[set[str]]:
    """Return the tests in at most GROUPS groups, so that few tests have arguments that others of their group expect.

    A text that is also in a test's own arguments reveals nothing about what it expects.
    """
    arguments = {name: {text for call in calls for text in _arguments(call)} for name, calls in tests.items()}
    expected = {
        name: {text for call in calls for text in _texts([call["answer"]["result"], call["answer"]["after"]])}
        for name, calls in tests.items()
    }
    holders: defaultdict[str, set[str]] = defaultdict(set)
    for name, texts in arguments.items():
        for text in texts:
            holders[text].add(name)
    conflicts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name in tests:
        for text in expected[name] - arguments[name]:
            for other in holders.get(text, ()) if len(holders.get(text, ())) <= _USUAL else ():
                for one, two in ((name, other), (other, name)):
                    conflicts[one][two] = conflicts[one].get(two, 0) + 1
    groups: list[set[str]] = [set() for _ in range(GROUPS)]
    for name in sorted(tests, key=lambda name: -sum(conflicts[name].values())):
        costs = [sum(conflicts[name].get(other, 0) for other in group) for group in groups]
        groups[costs.index(min(costs))].add(name)
    return [group for group in groups if group]


def _arguments(call: Call) -> Iterator[str]:
    yield from _texts([list(call["arguments"]), list(call["keywords"].values())])


def _texts(form: Any) -> Iterator[str]:
    """Yield the texts in a form; most tags of forms are too short to be among them."""
    if isinstance(form, str):
        if len(form) >= _SHORTEST and not _NUMBER.fullmatch(form):
            yield form
    elif isinstance(form, list) and not (len(form) > 2 and form[0] in _CODE):
        for part in form:
            yield from _texts(part)
