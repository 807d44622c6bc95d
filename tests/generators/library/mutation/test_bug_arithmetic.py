"""The generator ``bug_arithmetic``: numbers, operators, bounds, defaults and literals that are wrong."""

from __future__ import annotations

import pytest

from etude.errors import NotApplicable

CASES = [
    ("operator", "def f(a, b):\n    return a * b\n", {"return a * b -> return a + b"}),
    (
        "operator",
        "def f(total, values):\n    for value in values:\n        total *= value\n    return total\n",
        {"total *= value -> total += value"},
    ),
    ("operands", "def f(a, b):\n    return a // b\n", {"return a // b -> return b // a"}),
    ("constant", "def f(a):\n    return a == 3\n", {"return a == 3 -> return a == 4"}),
    ("constant", "LIMIT = 0.5\n\ndef f(a):\n    return a < LIMIT\n", {"LIMIT = 0.5 -> LIMIT = 5.0"}),
    (
        "slice",
        "def f(a, n):\n    return a[n:][:2]\n",
        {"return a[n:][:2] -> return a[n + 1:][:2]", "return a[n:][:2] -> return a[n:][:1]"},
    ),
    (
        "slice",
        "def f(a):\n    return a[-1] + a[::-1]\n",
        {"return a[-1] + a[::-1] -> return a[-1] + a[::1]", "return a[-1] + a[::-1] -> return a[0] + a[::-1]"},
    ),
    (
        "range",
        "def f(n):\n    return list(range(n))\n",
        {
            "return list(range(n)) -> return list(range(n - 1))",
            "return list(range(n)) -> return list(range(n + 1))",
            "return list(range(n)) -> return list(range(1, n))",
        },
    ),
    (
        "default",
        "def f(a, sep='-', deep=True):\n    return a, sep, deep\n",
        {
            "def f(a, sep='-', deep=True): -> def f(a, sep='-', deep=False):",
            "def f(a, sep='-', deep=True): -> def f(a, sep='_', deep=True):",
        },
    ),
    ("text", "def f(a):\n    return a.split(', ')\n", {"return a.split(', ') -> return a.split(',')"}),
    ("text", "def f(a):\n    return '%.2f' % a\n", {"return '%.2f' % a -> return '%.3f' % a"}),
    (
        "pattern",
        "import re\n\nWORD = re.compile(r'[a-z]+$')\n\ndef f(a):\n    return WORD.match(a)\n",
        {
            "WORD = re.compile(r'[a-z]+$') -> WORD = re.compile(r'[a-z]*$')",
            "WORD = re.compile(r'[a-z]+$') -> WORD = re.compile(r'[a-z]+')",
            "WORD = re.compile(r'[a-z]+$') -> WORD = re.compile(r'[a-y]+$')",
        },
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_each_kind_of_mistake_is_made_where_it_fits(changes, kind, source, expected):
    assert changes("bug_arithmetic", kind, source) == expected


def test_signs_that_join_or_format_texts_stay(changes):
    with pytest.raises(NotApplicable):
        changes("bug_arithmetic", "operator", "def f(a):\n    return 'x' + a, 'x%s' % a, f'{a}' + a, [a] + a\n")


def test_a_constant_of_a_module_is_decided_by_the_tests_of_its_readers(snapshot_of, propose):
    snapshot = snapshot_of("LIMIT = 3\n\ndef f(a):\n    return a < LIMIT\n", untested=[1, 3])
    assert propose(snapshot, "bug_arithmetic", kind="constant")
    unread = snapshot_of("LIMIT = 3\n\ndef f(a):\n    return a < LIMIT\n", untested=[1, 4])
    with pytest.raises(NotApplicable):
        propose(unread, "bug_arithmetic", kind="constant")
