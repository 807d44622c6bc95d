"""The index of shared layers: each word leads to the documents that hold it, whatever block it is in."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.monitors.leaks import Index, Needles
from etude.monitors.leaks.index import BLOCK
from etude.monitors.leaks.needles import Needle

WORDS = 3 * BLOCK + 7


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """Return an index of many words: ``word_N`` is in N % 4 + 1 documents, ``Zebra`` in the last one alone."""
    layer = tmp_path / "layer"
    layer.mkdir()
    for document in range(4):
        words = [f"word_{number}" for number in range(WORDS) if number % 4 >= document]
        (layer / f"{document}.txt").write_text(" ".join(words) + (" Zebra" if document == 3 else ""))
    (layer / "binary.bin").write_bytes(b"\0abc\0binary_word\0" + b"x" * 100)
    Index.build(tmp_path / "index", {"/layer": layer})
    return Index(tmp_path / "index")


def test_every_word_is_in_as_many_documents_as_hold_it(index: Index) -> None:
    assert [index.frequency(b"word_%d" % number) for number in range(WORDS)] == [n % 4 + 1 for n in range(WORDS)]
    assert index.frequency(b"Zebra") == 1


@pytest.mark.parametrize("word", [b"", b" ", b"A", b"word_", b"word_99999", b"zzz", b"word_1 word_10", b"\xff"])
def test_another_word_is_in_none(index: Index, word: bytes) -> None:
    assert index.frequency(word) == 0


def test_short_and_endless_words_of_binary_files_are_left_out(index: Index) -> None:
    assert [index.frequency(word) for word in (b"abc", b"binary_word", b"x" * 100)] == [0, 1, 0]


def test_a_phrase_is_found_in_its_document_alone(index: Index) -> None:
    runs = [tuple(b"word_%d" % (4 * number + 3) for number in range(start, start + 8)) for start in range(5)]
    needles = Needles(tuple(Needle("code", words) for words in runs))
    assert [leak.path for leak in index.find(needles)] == ["/layer/3.txt"]
    reversed_needles = Needles(tuple(Needle("code", words[::-1]) for words in runs))
    assert index.find(reversed_needles) == []
