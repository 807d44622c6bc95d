"""The generator ``bug_control_flow``: branches, loops and jumps that go the wrong way."""

from __future__ import annotations

import pytest

from etude.errors import NotApplicable

CASES = [
    (
        "inverted",
        "def f(a, b):\n    if a < b and a:\n        return 1\n    return 2 if a >= b else 3\n",
        {"if a < b and a: -> if not (a < b and a):", "return 2 if a >= b else 3 -> return 2 if a < b else 3"},
    ),
    (
        "inverted",
        "def f(a):\n    return [x for x in a if x.ok]\n",
        {"return [x for x in a if x.ok] -> return [x for x in a if not x.ok]"},
    ),
    (
        "swapped_branches",
        "def f(a):\n    if a:\n        b = 1\n    else:\n        b = 2\n    return b\n",
        {"else: / b = 2 -> b = 2 / else:"},
    ),
    (
        "dropped_else",
        "def f(a, b):\n    if a:\n        b.x = 1\n    else:\n        b.x = 2\n    return b\n",
        {"else: / b.x = 2 ->"},
    ),
    (
        "unconditional",
        "def f(a):\n    if a:\n        # note\n        a.go()\n    return a\n",
        {"if a: / # note / a.go() -> # note / a.go()"},
    ),
    (
        "dropped_branch",
        "def f(a):\n    if a == 1:\n        a = 5\n    elif a == 2:\n        a = 6\n    return a\n",
        {"elif a == 2: / a = 6 ->"},
    ),
    (
        "dropped_jump",
        "def f(a):\n    for x in a:\n        if x:\n            a.go(x)\n            break\n    return a\n",
        {"break ->"},
    ),
    (
        "wrong_jump",
        "def f(a):\n    for x in a:\n        if x:\n            continue\n        a.go(x)\n",
        {"continue -> break"},
    ),
    ("dropped_return", "def f(a):\n    if a:\n        a.go()\n        return 1\n    return 2\n", {"return 1 ->"}),
    ("loop_once", "def f(a, b):\n    for x in a:\n        b.go(x)\n        b.stop(x)\n", {"-> break"}),
    ("return_in_loop", "def f(a, b):\n    for x in a:\n        b.add(x)\n    return b\n", {"return b -> return b"}),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_each_kind_of_mistake_is_made_where_it_fits(changes, kind, source, expected):
    assert changes("bug_control_flow", kind, source) == expected


def test_a_while_loop_keeps_what_ends_it(changes):
    source = "def f(a):\n    while a:\n        a.go()\n        if a.done:\n            a.stop()\n            break\n"
    for kind in ("dropped_jump", "wrong_jump"):
        with pytest.raises(NotApplicable):
            changes("bug_control_flow", kind, source)
