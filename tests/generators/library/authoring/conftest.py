"""A small project with tests, as a Snapshot that was never built: what generators read."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

SHELF = '''\
"""Shelves."""

MOST = 4


def full(shelf, most=MOST):
    """Return whether a shelf has no room."""
    if not shelf or most is None:
        return False
    count = len(shelf)
    return count >= most


class Shelf:
    """A shelf with books."""

    def __init__(self, books=()):
        self.books = list(books)

    def add(self, book):
        if full(self.books):
            raise ValueError("no room")
        self.books.append(book)
        return len(self.books)


def unused(shelf):
    """Return nothing of interest."""
    if shelf:
        return shelf
    return None


def label(*names, sep=", "):
    """Return a label."""
    words = [name.strip() for name in names]
    return sep.join(words)
'''
TESTS = """\
import pytest

from shelf import Shelf, full, label

FULL = ["a", "b", "c", "d"]


def test_full():
    assert full(FULL)


def test_not_full():
    assert not full([])
    assert not full(["a"], 2)


def test_add():
    assert Shelf().add("a") == 1


def test_add_to_full_shelf():
    with pytest.raises(ValueError):
        Shelf(FULL).add("e")


def test_label():
    assert label("big books", "maps ") == "big books, maps"
    assert label("a", sep="-") == "a"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_other(number):
    assert number
"""
FILE = "tests/test_shelf.py"
IDS = [
    f"{FILE}::{name}"
    for name in (
        "test_full", "test_not_full", "test_add", "test_add_to_full_shelf", "test_label",
        "test_other[1]", "test_other[2]",
        "test_other[3]",
    )
]  # fmt: skip
COVERED = {
    IDS[0]: [8, 10, 11],
    IDS[1]: [8, 9, 10, 11],
    IDS[2]: [8, 9, 18, 21, 23, 24],
    IDS[3]: [8, 10, 11, 18, 21, 22],
    IDS[4]: [36, 37],
}
FUNCTIONS = {
    "shelf.py::full": IDS[:4],
    "shelf.py::Shelf.__init__": IDS[2:4],
    "shelf.py::Shelf.add": IDS[2:4],
    "shelf.py::label": [IDS[4]],
}


@pytest.fixture
def snapshot(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "shelf.py").write_text(SHELF)
    (tmp_path / FILE).write_text(TESTS)
    lines = {test: {"shelf.py": COVERED.get(test, [])} for test in IDS}
    baseline = SimpleNamespace(
        passed=IDS, dropped={}, tests_of=FUNCTIONS, at_import=[], covered=lines.__getitem__, seconds=0.5
    )
    verifier = SimpleNamespace(python_path=["."], kind="pytest")
    return SimpleNamespace(tree=tmp_path, source_roots=["shelf.py"], verifier=verifier, baseline=baseline)
