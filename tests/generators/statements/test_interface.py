"""Names that tests use: those of the package, that exist, and of the tests themselves."""

from __future__ import annotations

import pytest

from etude.generators.python.source_tree import SourceTree
from etude.generators.statements.interface import interface_of
from etude.models import InterfaceItem

SOURCE = """
def escape(text, *, strict=False):
    return text


class Shelf:
    pass
"""
TESTS = """
import re
from html import unescape

import pytest
import shelf
from shelf import escape, Shelf


class ShelfTest:
    def setup_method(self):
        self.shelf = Shelf()

    def test_one(self):
        assert escape("a")

    def test_two(self):
        with pytest.raises(KeyError, match="no such book"):
            shelf.missing()


def test_local():
    shelf = Shelf()
    assert shelf.books == re.escape("a", strict=1)
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "shelf.py").write_text(SOURCE)
    (tmp_path / "caller.py").write_text(
        "import re\nfrom shelf import escape\nre.escape(1)\n# escape(2)\nx = escape(3)\n"
    )
    (tmp_path / "other.py").write_text(
        '"""Calls escape(1) of the other module."""\nfrom html import escape\nescape(4)\n'
    )
    (tmp_path / "module.py").write_text("from . import shelf\nshelf.escape(5)\nprint(shelf.Shelf().escape(6))\n")
    (tmp_path / "test_shelf.py").write_text(TESTS)
    roots = ("shelf.py", "caller.py", "other.py", "module.py")
    return SourceTree(tmp_path, roots, (".",), frozenset({"test_shelf.py"}))


def names(tree, *tests):
    target = InterfaceItem(name="shelf.escape", kind="function", signature="def escape(text)")
    return {item.name for item in interface_of(tree, [target], [f"test_shelf.py::{test}" for test in tests])}


def test_only_the_named_tests_of_a_class_and_what_it_sets_up_count(tree):
    assert names(tree, "ShelfTest::test_one") == {"shelf.Shelf"}
    assert names(tree, "ShelfTest::test_two") == {"shelf.Shelf", "KeyError", "no such book"}


def test_a_whole_class_counts_when_it_inherits_the_test(tree):
    assert names(tree, "ShelfTest::test_inherited") == {"shelf.Shelf", "KeyError", "no such book"}


def test_local_variables_and_functions_of_other_packages_are_no_names_of_the_package(tree):
    assert names(tree, "test_local") == {"shelf.Shelf"}
