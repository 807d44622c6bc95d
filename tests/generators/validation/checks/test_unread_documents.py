"""Documents that no test reads: a task that leaves them changed can share the proof of its Snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.deleted_total import package, snapshot_of

from etude.generators.python.source_tree import SourceTree
from etude.generators.validation.checks.exercise import _unread

TESTS = "from sums import total\n\n\ndef test_total():\n    assert total([4, 5]) == 9\n"


@pytest.mark.parametrize(
    ("added", "paths", "expected"),
    [
        ({}, ["docs/guide.rst"], True),
        ({"noxfile.py": "TEXT = open('docs/guide.rst').read()\n"}, ["docs/guide.rst"], True),
        (
            {"tests/test_docs.py": "PAGES = ['guide']\n\n\ndef test_pages():\n    assert PAGES\n"},
            ["docs/guide.rst"],
            False,
        ),
        ({"tests/test_docs.py": "KIND = '*.rst'\n\n\ndef test_kind():\n    assert KIND\n"}, ["docs/guide.rst"], False),
        ({}, ["docs/guide.rst", "src/sums/core.py"], False),
        ({}, ["docs/table.csv"], False),
    ],
)
def test_only_documents_that_no_python_file_mentions_are_unread(
    tmp_path: Path, added: dict[str, str], paths: list[str], expected: bool
) -> None:
    files = {**package("sums", TESTS, TESTS), "docs/guide.rst": "Guide\n", "docs/table.csv": "1,2\n", **added}
    snapshot = snapshot_of(tmp_path / "sums", files)
    assert _unread(SourceTree.of(snapshot), paths, snapshot.baseline.passed) is expected


def test_a_document_with_tests_is_read(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path / "sums", package("sums", TESTS, TESTS))
    assert not _unread(SourceTree.of(snapshot), ["docs/guide.rst"], ["docs/guide.rst::guide.rst"])
