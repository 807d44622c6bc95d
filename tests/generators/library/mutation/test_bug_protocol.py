"""The generator ``bug_protocol``: special methods that break their protocol."""

from __future__ import annotations

import pytest

CASES = [
    (
        "not_implemented",
        "class A:\n    def __lt__(self, other):\n        if not other:\n"
        "            return NotImplemented\n        return self.a < other.a\n",
        {"return NotImplemented -> return False"},
    ),
    (
        "partial_comparison",
        "class A:\n    def __hash__(self):\n        return hash((self.a, self.b))\n",
        {"return hash((self.a, self.b)) -> return hash((self.a,))"},
    ),
    (
        "swapped_order",
        "class A:\n    def __lt__(self, other):\n        return self.a < other.a\n",
        {"return self.a < other.a -> return other.a < self.a"},
    ),
    (
        "missing_method",
        "class A:\n    def __bool__(self):\n        return self.a\n\n    def f(self):\n        return 1\n",
        {"def __bool__(self): / return self.a ->"},
    ),
    (
        "wrong_result",
        "class A:\n    def __contains__(self, a):\n        return a in self.a\n\n"
        "    def __len__(self):\n        return len(self.a)\n",
        {"return len(self.a) -> return len(self.a) + 1", "return a in self.a -> return True"},
    ),
    (
        "iterator",
        "class A:\n    def __iter__(self):\n        return iter(self.a)\n",
        {"return iter(self.a) -> return self", "return iter(self.a) -> return self.a"},
    ),
    (
        "iterator",
        "class A:\n    def __next__(self):\n        if not self.a:\n"
        "            raise StopIteration\n        return self.a.pop()\n",
        {"raise StopIteration -> return None"},
    ),
    (
        "context_manager",
        "class A:\n    def __enter__(self):\n        self.a = 1\n        return self\n\n"
        "    def __exit__(self, *error):\n        self.a = 0\n",
        {"-> return True", "return self ->"},
    ),
    (
        "missing_error",
        "class A:\n    def __getattr__(self, name):\n        if name:\n"
        "            raise AttributeError(name)\n        return 1\n",
        {"raise AttributeError(name) -> return None"},
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_each_kind_of_mistake_is_made_where_it_fits(changes, kind, source, expected):
    assert changes("bug_protocol", kind, source) == expected
