"""Index of layers that many tasks share (dependencies, interpreter, base): which document holds which words."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from .needles import Needle, Needles
from .scan import EXCERPT, Document, Leak, TooLarge, files, unfolded
from .text import phrase, words

VERSION = "2"
MAX_WORD = 64
_LEVEL = 1
"""Level of compression: the texts are read for few documents."""
MIN_BINARY_WORD = 4
MIN_CODE, CODE_SHARE = 3, 0.25
MIN_OTHERS, OTHERS_SHARE, RARE_IN = 4, 0.5, 3
BLOCK = 256
"""Words of one row: a lookup reads one row, and a row for each word would take longer to write than to collect."""


class Index:
    """An SQLite file: ``words`` (blocks of words, with the documents that hold each) and ``docs`` (packed texts).

    A shared layer may hold single needles, since other packages use the same names and phrases. A document of it leaks
    when it holds much of *one* removed piece: a quarter of its code, or half of its names, phrases and constants, one
    of them rare.
    """

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        self._postings: dict[bytes, frozenset[int]] = {}

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @staticmethod
    def build(path: Path, roots: Mapping[str, Path], *, skip: Iterable[str] = (), machine_code: bool = True) -> int:
        """Write the index of ``roots`` to ``path`` (which must not exist); return the number of bytes read.

        ``skip`` are folders (whole paths) to leave out; without ``machine_code`` ELF files are left out too.
        """
        # The number of a document stands for a list of one: most words are in one document.
        postings: dict[bytes, int | list[int]] = {}
        size = number = 0
        digests: set[bytes] = set()
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("CREATE TABLE docs (id INTEGER PRIMARY KEY, path TEXT, container TEXT, text BLOB)")
            database.execute("CREATE TABLE words (first BLOB PRIMARY KEY, words BLOB, counts BLOB, docs BLOB)")
            for shown, root in roots.items():
                for relative, data in files(root, skip, machine_code=machine_code):
                    size += len(data)
                    for document, vocabulary in _readable(f"{shown}/{relative}", data, digests):
                        packed = zstd.compress(document.data, _LEVEL)
                        row = (number, document.path, document.container, packed)
                        database.execute("INSERT INTO docs VALUES (?, ?, ?, ?)", row)
                        repeated = vocabulary & postings.keys()
                        postings.update(dict.fromkeys(vocabulary - repeated, number))
                        for word in repeated:
                            documents = postings[word]
                            if isinstance(documents, int):
                                postings[word] = [documents, number]
                            else:
                                documents.append(number)
                        number += 1
            database.executemany("INSERT INTO words VALUES (?, ?, ?, ?)", _blocks(postings))
            database.commit()
        return size

    def frequency(self, word: bytes) -> int:
        """Return the number of documents that hold ``word``."""
        return len(self._holding(word))

    def _holding(self, word: bytes) -> frozenset[int]:
        if word not in self._postings:
            self._postings[word] = self._look_up(word)
        return self._postings[word]

    def _look_up(self, word: bytes) -> frozenset[int]:
        query = "SELECT words, counts, docs FROM words WHERE first <= ? ORDER BY first DESC LIMIT 1"
        row = self._database.execute(query, (word,)).fetchone()
        block = row[0].split(b" ") if row else []
        if word not in block:
            return frozenset()
        place, counts = block.index(word), array("I", row[1])
        start = sum(counts[:place])
        return frozenset(array("I", row[2])[start : start + counts[place]])

    def find(self, needles: Needles) -> list[Leak]:
        """Return the documents that hold much of what was removed."""
        code = [needle for needle in needles.items if needle.kind == "code"]
        others = [needle for needle in needles.items if needle.kind != "code"]
        leaks = self._crowded(code, max(MIN_CODE, int(CODE_SHARE * len(code))))
        rare = {word for needle in others for word in needle.words if 0 < self.frequency(word) <= RARE_IN}
        if rare:
            leaks += self._crowded(others, max(MIN_OTHERS, int(OTHERS_SHARE * len(others))), rare)
        return list({leak.path: leak for leak in leaks}.values())

    def _crowded(self, needles: list[Needle], least: int, rare: set[bytes] | None = None) -> list[Leak]:
        """Return the documents that hold at least ``least`` of the needles, one with a ``rare`` word where given."""
        allowed = None if rare is None else frozenset().union(*map(self._holding, rare))
        candidates: dict[int, list[Needle]] = {}
        for needle in needles:
            for number in self._together(needle, allowed):
                candidates.setdefault(number, []).append(needle)
        leaks = []
        for number, possible in candidates.items():
            if len(possible) < least:
                continue
            query = "SELECT path, container, text FROM docs WHERE id = ?"
            path, container, packed = self._database.execute(query, (number,)).fetchone()
            text = phrase(_words(zstd.decompress(packed)))
            matches = [needle for needle in possible if phrase(needle.words) in text]
            if len(matches) >= least and (rare is None or any(rare & set(needle.words) for needle in matches)):
                leaks.append(Leak(path, container, matches[0].kind, matches[0].text[:EXCERPT]))
        return leaks

    def _together(self, needle: Needle, allowed: frozenset[int] | None) -> frozenset[int]:
        """Return the documents that hold all words of a needle, in any order."""
        postings = sorted((self._holding(word) for word in set(needle.words)), key=len)
        return frozenset.intersection(*postings, *([] if allowed is None else [allowed]))


def _blocks(postings: Mapping[bytes, int | list[int]]) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """Yield the rows of ``words``: the first word, all words, how many documents hold each, and these in order."""
    ordered = sorted(postings)
    for start in range(0, len(ordered), BLOCK):
        block = ordered[start : start + BLOCK]
        counts, documents = array("I"), array("I")
        for item in map(postings.__getitem__, block):
            numbers = (item,) if isinstance(item, int) else item
            counts.append(len(numbers))
            documents.extend(numbers)
        yield block[0], b" ".join(block), counts.tobytes(), documents.tobytes()


def _readable(path: str, data: bytes, digests: set[bytes]) -> Iterator[tuple[Document, set[bytes]]]:
    """Yield each document in a file with its words."""
    try:
        for document in unfolded(path, data, digests):
            least = _least(document.data)
            vocabulary = set(words(document.data))
            if least > 1 or (vocabulary and len(max(vocabulary, key=len)) > MAX_WORD):
                vocabulary = {word for word in vocabulary if least <= len(word) <= MAX_WORD}
            yield document, vocabulary
    except TooLarge:
        return  # every task has the layer, and no agent could unpack such a file within its own limits


def _least(data: bytes) -> int:
    """Return the length of the shortest words that count in a document."""
    return MIN_BINARY_WORD if b"\0" in data[:4096] else 1


def _words(data: bytes) -> list[bytes]:
    """Return the words of a document that count, in order."""
    least = _least(data)
    return [word for word in words(data) if least <= len(word) <= MAX_WORD]


def fingerprint(roots: Mapping[str, Path], *extra: str) -> str:
    """Return a digest of paths, sizes and times below ``roots``: the same as long as nothing was written."""
    digest = hashlib.sha256(VERSION.encode())
    for shown, root in sorted(roots.items()):
        digest.update(f"{shown}\0{root}\0".encode("utf-8", "surrogateescape"))
        for folder, names, entries in os.walk(root):
            names.sort()
            for name in sorted(entries):
                status = os.lstat(os.path.join(folder, name))
                if stat.S_ISREG(status.st_mode):
                    line = f"{folder}/{name}\0{status.st_size}\0{status.st_mtime_ns}\n"
                    digest.update(line.encode("utf-8", "surrogateescape"))
    digest.update("\0".join(extra).encode())
    return digest.hexdigest()
