"""Which definitions of a package a piece of code reaches by name."""

from __future__ import annotations

from etude.generators.python.reached_definitions import reached_definitions
from etude.generators.python.source_tree import SourceTree

MODULE = b'''
def outer(text):
    """Use comment_only."""
    return middle(text)

def middle(text):
    return Box(text).open()

class Box:
    def __init__(self, text):
        self.text = text

    def open(self):
        return inner(self.text)

def inner(text):
    return text  # comment_only

def comment_only():
    return None
'''


def tree_of(folder):
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").write_bytes(b"")
    (folder / "pkg" / "a.py").write_bytes(MODULE)
    (folder / "test_a.py").write_bytes(b"def inner():\n    pass\n")
    return SourceTree(folder, ("pkg",), (".",), frozenset({"test_a.py"}))


def test_definitions_are_reached_through_others_and_not_through_comments_or_tests(tmp_path):
    reached = reached_definitions(tree_of(tmp_path), [b"    value = outer('x')\n"])
    assert reached == {f"pkg/a.py::{name}" for name in ("outer", "middle", "Box", "Box.open", "inner")}


def test_code_that_mentions_nothing_of_the_package_reaches_nothing(tmp_path):
    assert reached_definitions(tree_of(tmp_path), [b"print(1)\n"]) == set()
