"""Changes of tests that a right solution fails: which values, how they look, and what comes where none is found."""

from __future__ import annotations

import ast
import random

import pytest

from etude.generators.validation.checks.control_edits import edits, other_value

DRAW = 7


def changed(source: str, *names: str) -> list[str]:
    """Return the source after each change that is proposed."""
    text = source.encode()
    return [
        (text[: edit.start] + edit.text.encode() + text[edit.end :]).decode()
        for edit in edits(text, names, random.Random(DRAW))
    ]


@pytest.mark.parametrize(
    "value",
    [0, 7, -1, 100, 2**70, 1.5, 1e10, 0.0, float("inf"), True, False, "", "abc", "-", b"", b"\xff", "ünïcode", "A1"],
)
def test_another_value_has_the_same_type_and_differs(value: int | float | bool | str | bytes) -> None:
    for seed in range(50):
        other = ast.literal_eval(other_value(value, random.Random(seed)))
        assert type(other) is type(value)
        assert other != value


def test_a_text_keeps_its_length_and_its_kinds_of_characters() -> None:
    other = ast.literal_eval(other_value("v1.20-rc", random.Random(DRAW)))
    assert [mark.isdigit() for mark in other] == [mark.isdigit() for mark in "v1.20-rc"]


def test_the_compared_value_is_changed_first_and_the_claim_last() -> None:
    first, *_, last = changed("def test_a():\n    assert f(3) == 4\n", "test_a")
    assert first.startswith("def test_a():\n    assert f(3) == ") and "== 4" not in first
    assert last == "def test_a():\n    assert not (f(3) == 4)\n"


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("def test_a():\n    expected = ['x']\n    assert f(3) == expected\n", "f(3) == expected"),
        ("@pytest.mark.parametrize('a, b', [(1, 2), (3, 4)])\ndef test_a(a, b):\n    assert f(a) == b\n", "f(a) == b"),
        ("def test_a():\n    assert f(3) is True\n", "f(3) is False"),
        ("def test_a():\n    with pytest.raises(ValueError):\n        f(3)\n", "        f(3)"),
        ("def test_a():\n    assert f(3)\n", "assert not (f(3))"),
        ("def test_a(self):\n    self.assertTrue(f(3))\n", "self.assertFalse(f(3))"),
    ],
)
def test_what_a_test_expects_is_found(source: str, kept: str) -> None:
    first = changed(source, "test_a")[0]
    assert first != source
    assert kept in first
    ast.parse(first)


def test_an_argument_of_a_case_stays() -> None:
    source = "@pytest.mark.parametrize('a, b', [(1, 2), (3, 4)])\ndef test_a(a, b):\n    assert f(a) == b\n"
    assert all("[(1, " in text and "(3, " in text for text in changed(source, "test_a"))


@pytest.mark.parametrize(
    "source", ["def test_b():\n    assert f() == 1\n", "def test_a(:\n", "def test_a():\n    f(3)\n", "class A: pass\n"]
)
def test_nothing_is_proposed_where_nothing_is_expected(source: str) -> None:
    assert changed(source, "test_a") == []


def test_methods_are_found_in_their_class_alone() -> None:
    source = "class TestA:\n    def test_a(self):\n        assert f() == 1\n"
    assert changed(source, "TestA", "test_a")
    assert not changed(source, "TestB", "test_a")
