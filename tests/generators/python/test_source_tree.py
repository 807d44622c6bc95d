"""The tree of a Snapshot as generators read it."""

from __future__ import annotations

from pathlib import Path

from etude.generators.python.source_tree import SourceTree


def test_the_data_of_tests_are_not_documents(tmp_path: Path) -> None:
    for path in ("README.md", "docs/guide.rst", "tests/fixtures/lists.txt", "tests/test_guide.md", "pkg/notes.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(">>> parse()\n")
    tree = SourceTree(tmp_path, ("pkg",), (".",), frozenset({"docs/guide.rst"}))
    assert sorted(tree.documents()) == ["README.md", "pkg/notes.md"]
