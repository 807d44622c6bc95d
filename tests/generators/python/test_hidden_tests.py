"""Which parts of test files leave the workspace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from etude.generators.python.hidden_tests import hide
from etude.generators.python.source_tree import SourceTree

INHERITED = """import unittest


class Common:
    def test_get(self):
        self.assertEqual(self.kind().get("a"), 1)

    def test_put(self):
        self.kind().put("a", 2)


class DictTests(unittest.TestCase, Common):
    kind = dict


class ChildTests(DictTests):
    kind = None

    def test_own(self):
        pass
"""

Hidden = Callable[[str, list[str]], str | None]


@pytest.fixture
def shown(tmp_path: Path) -> Hidden:
    """Return what the workspace shows of a test file without some tests."""

    def show(source: str, tests: list[str]) -> str | None:
        (tmp_path / "test_kinds.py").write_text(source)
        tree = SourceTree(tmp_path, ("pkg",), (".",), frozenset({"test_kinds.py"}))
        content = hide(tree, [f"test_kinds.py::{test}" for test in tests])["test_kinds.py"]
        return None if content is None else content.decode()

    return show


@pytest.mark.parametrize("classes", [["DictTests"], ["ChildTests"], ["DictTests", "ChildTests"]])
def test_an_inherited_test_leaves_the_class_that_defines_it(shown: Hidden, classes: list[str]) -> None:
    content = shown(INHERITED, [f"{name}::test_get" for name in classes])
    assert content is not None and "test_get" not in content
    assert all(word in content for word in ("class DictTests", "class ChildTests", "test_put", "test_own"))


def test_a_class_all_of_whose_tests_are_hidden_leaves_with_the_base_that_only_it_uses(shown: Hidden) -> None:
    both = INHERITED.partition("class ChildTests")[0]
    assert shown(both, ["DictTests::test_get", "DictTests::test_put"]) is None
    rest = shown(both + "\n\ndef test_rest():\n    pass\n", ["DictTests::test_get", "DictTests::test_put"])
    assert rest is not None and "test_get" not in rest and "Common" not in rest


def test_every_definition_of_a_test_leaves(shown: Hidden) -> None:
    twice = "class TestKind:\n" + "".join(
        f"    def test_{name}(self):\n        assert {number}\n\n" for number, name in enumerate(["get", "put", "get"])
    )
    content = shown(twice, ["TestKind::test_get"])
    assert content is not None and "test_get" not in content and "test_put" in content
    diamond = "\n\n".join(
        f"class {name}({base}):\n    def test_{test}(self):\n        assert True\n"
        for name, base, test in [("A", "", "get"), ("B", "A", "put"), ("C", "", "get"), ("TestD", "B, C", "own")]
    )
    more = diamond.replace("class A():", "class A():\n    kind = 1\n").replace(
        "class C():", "class C():\n    kind = 2\n"
    )
    content = shown(more, ["TestD::test_get"])
    assert content is not None and "test_get" not in content and "test_own" in content


def test_a_class_that_would_be_empty_leaves_whole_and_its_base_stays(shown: Hidden) -> None:
    source = (
        "class TestBase:\n    def test_put(self):\n        pass\n\n\n"
        "class TestChild(TestBase):\n    def test_get(self):\n        pass\n\n\ndef test_rest():\n    pass\n"
    )
    content = shown(source, ["TestChild::test_get"])
    assert content is not None and "TestChild" not in content and "test_put" in content and "test_rest" in content


def test_a_class_leaves_with_its_base(shown: Hidden) -> None:
    source = (
        "class TestBase:\n    def test_get(self):\n        pass\n\n\n"
        "class TestChild(TestBase):\n    def test_put(self):\n        pass\n\n\ndef test_rest():\n    pass\n"
    )
    content = shown(source, ["TestBase::test_get", "TestChild::test_get"])
    assert content is not None and "class" not in content and "test_rest" in content


def test_a_file_leaves_whole_when_a_base_would_be_empty(shown: Hidden) -> None:
    source = (
        "class Base:\n    def test_get(self):\n        pass\n\n\n"
        "class TestChild(Base):\n    def test_put(self):\n        pass\n\n\ndef test_rest():\n    pass\n"
    )
    assert shown(source, ["TestChild::test_get"]) is None


def test_a_class_leaves_whole_when_a_test_comes_from_elsewhere(shown: Hidden) -> None:
    source = f"from kinds import Elsewhere\n{INHERITED}".replace("unittest.TestCase, Common", "Elsewhere, Common")
    content = shown(
        source.partition("class ChildTests")[0] + "\n\ndef test_rest():\n    pass\n", ["DictTests::test_far"]
    )
    assert content is not None and "DictTests" not in content and "test_rest" in content


@pytest.mark.parametrize("others", ["from test_kinds import LIMIT\n", "import sys\n# see test_kinds\n"])
def test_a_file_without_tests_stays_when_another_file_imports_from_it(
    shown: Hidden, tmp_path: Path, others: str
) -> None:
    (tmp_path / "test_more.py").write_text(others)
    content = shown("from limits import LIMIT\n\ndef test_limit():\n    assert LIMIT\n", ["test_limit"])
    assert content == ("from limits import LIMIT\n\n" if others.startswith("from") else None)
