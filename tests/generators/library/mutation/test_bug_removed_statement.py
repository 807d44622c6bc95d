"""The generator ``bug_removed_statement``: a missing statement."""

from __future__ import annotations

import pytest

from etude.errors import NotApplicable

CASES = [
    ("assignment", "def f(a, b):\n    b.x = a\n    b['k'] = a\n    return b\n", {"b['k'] = a ->", "b.x = a ->"}),
    ("update", "def f(a, b):\n    for x in a:\n        b += x\n    return b\n", {"b += x -> pass"}),
    ("rebinding", "def f(a):\n    a = a.strip()\n    b = a.lower()\n    return b\n", {"a = a.strip() ->"}),
    (
        "guard",
        "def f(a):\n    if a < 0:\n        raise ValueError(a)\n    if not a:\n        return 0\n    return a + 1\n",
        {"if not a: / return 0 ->", "if a < 0: / raise ValueError(a) ->"},
    ),
    ("raise", "def f(a):\n    if a:\n        return 1\n    raise ValueError(a)\n", {"raise ValueError(a) ->"}),
    ("deletion", "def f(a):\n    del a['k']\n    return a\n", {"del a['k'] ->"}),
    ("yield", "def f(a):\n    yield 0\n    yield from a\n", {"yield from a ->", "yield 0 ->"}),
    ("call", "def f(a, b):\n    b.sort()\n    return b\n", {"b.sort() ->"}),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_each_kind_of_mistake_is_made_where_it_fits(changes, kind, source, expected):
    assert changes("bug_removed_statement", kind, source) == expected


def test_an_attribute_keeps_the_only_assignment_that_makes_it(changes):
    source = (
        "class A:\n    def __init__(self, a):\n        self.a = a\n        self.b = a\n\n"
        "    def f(self):\n        self.b = 2\n"
    )
    assert changes("bug_removed_statement", "assignment", source) == {"self.b = a ->", "self.b = 2 -> pass"}


def test_a_loop_that_could_run_forever_keeps_its_statements(changes):
    for kind, line in (("update", "a += 1"), ("call", "a.pop()")):
        with pytest.raises(NotApplicable):
            changes("bug_removed_statement", kind, f"def f(a):\n    while a < 9:\n        {line}\n    return a\n")
