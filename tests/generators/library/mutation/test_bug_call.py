"""The generator ``bug_call``: wrong arguments, and functions that look alike."""

from __future__ import annotations

import pytest

from etude.errors import NotApplicable

CASES = [
    ("swapped", "def f(a, b):\n    return g(a, b)\n", {"return g(a, b) -> return g(b, a)"}),
    ("repeated", "def f(a, b):\n    return g(a, b)\n", {"return g(a, b) -> return g(a, a)"}),
    (
        "dropped",
        "def g(a, b=1):\n    return a\n\ndef f(a, b):\n    return g(a, b), a.get(b, 2), h(a, b)\n",
        {
            "return g(a, b), a.get(b, 2), h(a, b) -> return g(a, b), a.get(b), h(a, b)",
            "return g(a, b), a.get(b, 2), h(a, b) -> return g(a), a.get(b, 2), h(a, b)",
        },
    ),
    (
        "keyword",
        "def f(a):\n    return g(a, deep=True, name='x')\n",
        {"return g(a, deep=True, name='x') -> return g(a, name='x')"},
    ),
    (
        "wrong_variable",
        "def f(first_name, last_name):\n    return g(first_name)\n",
        {"return g(first_name) -> return g(last_name)"},
    ),
    (
        "wrong_attribute",
        "class A:\n    def __init__(self, a):\n        self.min_size = a\n"
        "        self.max_size = a\n\n    def f(self):\n        return self.min_size\n",
        {"return self.min_size -> return self.max_size"},
    ),
    (
        "sibling",
        "def f(a):\n    return min(a.rstrip(), key=len)\n",
        {
            "return min(a.rstrip(), key=len) -> return min(a.strip(), key=len)",
            "return min(a.rstrip(), key=len) -> return max(a.rstrip(), key=len)",
        },
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_each_kind_of_mistake_is_made_where_it_fits(changes, kind, source, expected):
    assert changes("bug_call", kind, source) == expected


def test_type_checks_keep_their_arguments(changes):
    for kind in ("swapped", "dropped"):
        with pytest.raises(NotApplicable):
            changes("bug_call", kind, "def f(a, b):\n    return isinstance(a, b)\n")
