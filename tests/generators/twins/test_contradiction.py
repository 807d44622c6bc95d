"""Contradictions: which expected values are changed, to what, and that nothing else of the file is."""

from __future__ import annotations

import ast

import pytest

from etude.generators.python.expected_values import source_of_test
from etude.generators.twins.contradiction import contradictions

SOURCE = b'''"""Tests."""
from shelf import f

def helper(): return 3

def test_number(): assert f(1) == 3  # a comment stays

def test_left():
    assert 3 == f(1)

class TestShelf:
    def test_text(self):
        self.assertEqual(f("a"), "ab")

def test_inside():
    assert f(1) == {"a": [1, (2.5, True)], "b": None}

def test_nothing_to_change():
    assert f(1) is True
    assert f(1) == True
    assert f(1) != 3
    assert f(1) < 3
    assert f(1) == f(2)
    assert 1 == 1
    assert f(1) == f"{1}"
'''


def changed(*names: str) -> list[list[tuple[str, str]]]:
    """Return, for each contradiction of a test, the lines that differ: before and after."""
    before = SOURCE.decode().splitlines()
    variants = [variant.decode().splitlines() for variant in contradictions(SOURCE, names)]
    return [[pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] for after in variants]


def test_an_expected_value_is_changed_on_either_side_and_far_from_the_old_one() -> None:
    ((before, after),) = changed("test_number")[0]
    assert before == "def test_number(): assert f(1) == 3  # a comment stays"
    number = int(after.removeprefix("def test_number(): assert f(1) == ").removesuffix("  # a comment stays"))
    assert number - 3 >= 7919
    assert changed("test_left")[0][0][1] == f"    assert {number} == f(1)"


def test_a_method_is_found_in_its_class_and_text_gets_a_suffix() -> None:
    ((before, after),) = changed("TestShelf", "test_text")[0]
    assert before == '        self.assertEqual(f("a"), "ab")'
    assert after.startswith('        self.assertEqual(f("a"), \'ab-') and len(after) == len(before) + 7


def test_each_number_of_a_nested_value_is_changed_in_turn_but_no_key_and_no_truth_value() -> None:
    first, second = changed("test_inside")
    assert first[0][1].startswith('    assert f(1) == {"a": [') and first[0][1].endswith('(2.5, True)], "b": None}')
    assert second[0][1].startswith('    assert f(1) == {"a": [1, (') and second[0][1].endswith(', True)], "b": None}')


@pytest.mark.parametrize("names", [["test_nothing_to_change"], ["helper"], ["test_absent"], ["TestShelf", "test_left"]])
def test_there_is_no_contradiction_where_nothing_computed_is_compared_with_a_value(names: list[str]) -> None:
    assert changed(*names) == []


MIXIN = b"""class Mixin:
    def test_size(self):
        self.assertEqual(self.size(), 3)

class Base(Mixin): pass

class FirstTest(Base, unittest.TestCase):
    def size(self):
        return 3

class SecondTest(Mixin): pass
"""


def test_an_inherited_test_is_overridden_in_its_own_class_alone() -> None:
    (variant,) = contradictions(MIXIN, ["FirstTest", "test_size"])
    tree = {item.name: item for item in ast.parse(variant).body if isinstance(item, ast.ClassDef)}
    methods = {
        name: [part.name for part in item.body if isinstance(part, ast.FunctionDef)] for name, item in tree.items()
    }
    assert methods == {"Mixin": ["test_size"], "Base": [], "FirstTest": ["size", "test_size"], "SecondTest": []}
    assert b"self.assertEqual(self.size(), 3)" in variant and variant.count(b"assertEqual") == 2
    assert source_of_test(MIXIN, ["FirstTest", "test_size"]) is None
    assert list(contradictions(MIXIN, ["SecondTest", "test_size"])) == []  # no body of its own to take the layout from


def test_a_file_that_cannot_be_parsed_has_no_contradiction() -> None:
    assert list(contradictions(b"def test(:\n", ["test"])) == []
    assert source_of_test(b"def test(:\n", ["test"]) is None


def test_changed_sources_still_parse() -> None:
    for names in (["test_number"], ["TestShelf", "test_text"], ["test_inside"]):
        for variant in contradictions(SOURCE, names):
            ast.parse(variant)
            assert source_of_test(variant, names) != source_of_test(SOURCE, names)
