"""The generator ``bug_shared_state``: state that is shared or used up."""

from __future__ import annotations

import pytest

CASES = [
    (
        "mutable_default",
        "def f(a, seen=None):\n    if seen is None:\n        seen = set()\n    seen.add(a)\n    return seen\n",
        {"def f(a, seen=None): / if seen is None: / seen = set() -> def f(a, seen=set()):"},
    ),
    (
        "mutable_default",
        "def f(a, *, seen=None):\n    seen = seen or []\n    return seen\n",
        {"def f(a, *, seen=None): / seen = seen or [] -> def f(a, *, seen=[]):"},
    ),
    (
        "dropped_copy",
        "import copy\n\ndef f(a):\n    return list(a), a[:], a.copy(), copy.deepcopy(a)\n",
        {
            "return list(a), a[:], a.copy(), copy.deepcopy(a) -> return list(a), a[:], a, copy.deepcopy(a)",
            "return list(a), a[:], a.copy(), copy.deepcopy(a) -> return a, a[:], a.copy(), copy.deepcopy(a)",
            "return list(a), a[:], a.copy(), copy.deepcopy(a) -> return list(a), a[:], a.copy(), a",
            "return list(a), a[:], a.copy(), copy.deepcopy(a) -> return list(a), a, a.copy(), copy.deepcopy(a)",
        },
    ),
    (
        "shallow_copy",
        "import copy\n\ndef f(a):\n    return copy.deepcopy(a)\n",
        {"return copy.deepcopy(a) -> return copy.copy(a)"},
    ),
    (
        "cache_key",
        "def f(cache, a, b):\n    key = (a, b)\n    return cache[key]\n",
        {"key = (a, b) -> key = (b,)", "key = (a, b) -> key = (a,)"},
    ),
    (
        "exhausted",
        "def f(a):\n    rows = [x for x in a]\n    return sum(rows), max(rows)\n",
        {"rows = [x for x in a] -> rows = (x for x in a)"},
    ),
    (
        "exhausted",
        "def f(a):\n    rows = list(a.items())\n    return sum(rows), max(rows)\n",
        {"rows = list(a.items()) -> rows = iter(a.items())"},
    ),
    (
        "shared_element",
        "def f(n, keys):\n    return [[] for _ in range(n)], {key: [] for key in keys}\n",
        {
            "return [[] for _ in range(n)], {key: [] for key in keys} -> return [[]] * n, {key: [] for key in keys}",
            "return [[] for _ in range(n)], {key: [] for key in keys}"
            " -> return [[] for _ in range(n)], dict.fromkeys(keys, [])",
        },
    ),
    (
        "shared_attribute",
        "class A:\n    def __init__(self, a):\n        self.a = a\n        self.rows = []\n",
        {"self.rows = [] -> rows = []"},
    ),
    (
        "shared_over_loop",
        "def f(a, b):\n    for x in a:\n        row = []\n        row.append(x)\n        b.add(row)\n",
        {"row = [] -> row = []"},
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_each_kind_of_mistake_is_made_where_it_fits(changes, kind, source, expected):
    assert changes("bug_shared_state", kind, source) == expected
