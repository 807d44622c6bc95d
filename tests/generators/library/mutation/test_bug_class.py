"""The generator ``bug_class``: lost bases, methods, decorators and instances."""

from __future__ import annotations

import pytest

from etude.errors import NotApplicable

CASES = [
    (
        "base",
        "class A:\n    def f(self):\n        return 1\n\n\nclass B(A, dict):\n    def g(self):\n        return 2\n",
        {"class B(A, dict): -> class B(A):", "class B(A, dict): -> class B(dict):"},
    ),
    (
        "base",
        "class Bad(ValueError):\n    pass\n\n\nclass Worse(KeyError):\n    pass\n\ndef f(a):\n    raise Worse(a)\n",
        {"class Worse(KeyError): -> class Worse(Exception):"},
    ),
    ("base_order", "class A(B, C):\n    def f(self):\n        return 1\n", {"class A(B, C): -> class A(C, B):"}),
    ("super", "class A(B):\n    def f(self):\n        super().f()\n        return 1\n", {"super().f() ->"}),
    (
        "decorator",
        "class A:\n    @property\n    def f(self):\n        return 1\n\n    @other\n"
        "    def g(self):\n        return 2\n",
        {"@property ->"},
    ),
    (
        "override",
        "class A:\n    def f(self):\n        return 1\n\n\nclass B(A):\n    def f(self):\n"
        "        return 2\n\n    def g(self):\n        return 3\n",
        {"def f(self): / return 2 ->"},
    ),
    (
        "class_attribute",
        "class A:\n    def __init__(self, a):\n        self.a = a\n",
        {"self.a = a -> type(self).a = a"},
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_each_kind_of_mistake_is_made_where_it_fits(changes, kind, source, expected):
    assert changes("bug_class", kind, source) == expected


def test_a_property_with_a_setter_keeps_its_decorators(changes):
    source = (
        "class A:\n    @property\n    def f(self):\n        return 1\n\n    @f.setter\n"
        "    def f(self, a):\n        self.a = a\n"
    )
    with pytest.raises(NotApplicable):
        changes("bug_class", "decorator", source)
