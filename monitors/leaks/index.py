"""Index of the layers that many tasks share (dependencies, interpreter, base): which document holds which words."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import zlib
from array import array
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from .needles import Needle, Needles
from .scan import EXCERPT, Leak, TooLarge, Visited, documents, files
from .text import phrase, words

VERSION = "1"
MAX_WORD = 64
MIN_BINARY_WORD = 4
MIN_CODE, CODE_SHARE = 3, 0.25
MIN_OTHERS, OTHERS_SHARE, RARE_IN = 4, 0.5, 3


class Index:
    """An SQLite file: ``words`` (word to the documents that hold it) and ``docs`` (path, container, packed text).

    A match in a shared layer is not yet a leak, because other packages use the same names and phrases. A document leaks
    when it holds much of *one* removed piece: a quarter of its code, or half of its names, phrases and constants, one
    of them rare.
    """

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        self._postings: dict[bytes, frozenset[int]] = {}

    def close(self) -> None:
        self._database.close()

    @staticmethod
    def build(path: Path, roots: Mapping[str, Path], *, skip: Iterable[str] = (), machine_code: bool = True) -> int:
        """Write the index of ``roots`` to ``path`` (which must not exist) and return the bytes read.

        ``skip`` are folders (whole paths) to leave out; without ``machine_code`` ELF files are left out too.
        """
        postings: dict[bytes, array[int]] = {}
        read = 0
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("CREATE TABLE docs (id INTEGER PRIMARY KEY, path TEXT, container TEXT, text BLOB)")
            database.execute("CREATE TABLE words (word BLOB PRIMARY KEY, docs BLOB) WITHOUT ROWID")
            visited, number = Visited(), 0
            for shown, root in roots.items():
                for relative, data in files(root, skip, machine_code=machine_code):
                    read += len(data)
                    for name, container, text in _readable(f"{shown}/{relative}", data, visited):
                        row = (number, name, container, zlib.compress(phrase(text), 1))
                        database.execute("INSERT INTO docs VALUES (?, ?, ?, ?)", row)
                        for word in set(text):
                            postings.setdefault(word, array("I")).append(number)
                        number += 1
            database.executemany(
                "INSERT INTO words VALUES (?, ?)", ((word, postings[word].tobytes()) for word in sorted(postings))
            )
            database.commit()
        return read

    def frequency(self, word: bytes) -> int:
        """Return the number of documents that hold ``word``."""
        return len(self._holding(word))

    def _holding(self, word: bytes) -> frozenset[int]:
        if word not in self._postings:
            row = self._database.execute("SELECT docs FROM words WHERE word = ?", (word,)).fetchone()
            self._postings[word] = frozenset(array("I", row[0])) if row else frozenset()
        return self._postings[word]

    def find(self, needles: Needles) -> list[Leak]:
        """Return the documents that hold much of what was removed."""
        code = [needle for needle in needles.items if needle.kind == "code"]
        others = [needle for needle in needles.items if needle.kind != "code"]
        leaks = self._crowded(code, max(MIN_CODE, int(CODE_SHARE * len(code))))
        rare = {word for needle in others for word in needle.words if 0 < self.frequency(word) <= RARE_IN}
        if rare:
            leaks += self._crowded(others, max(MIN_OTHERS, int(OTHERS_SHARE * len(others))), rare)
        return list({leak.path: leak for leak in leaks}.values())

    def _crowded(self, candidates: list[Needle], least: int, rare: set[bytes] | None = None) -> list[Leak]:
        """Return the documents that hold at least ``least`` of the needles, one of them with a ``rare`` word."""
        allowed = None if rare is None else frozenset().union(*map(self._holding, rare))
        possible: dict[int, list[Needle]] = {}
        for needle in candidates:
            for number in self._together(needle, allowed):
                possible.setdefault(number, []).append(needle)
        leaks = []
        for number, maybe in possible.items():
            if len(maybe) < least:
                continue
            path, container, packed = self._database.execute(
                "SELECT path, container, text FROM docs WHERE id = ?", (number,)
            ).fetchone()
            text = zlib.decompress(packed)
            held = [needle for needle in maybe if phrase(needle.words) in text]
            if len(held) >= least and (rare is None or any(rare & set(needle.words) for needle in held)):
                leaks.append(Leak(path, container, held[0].kind, held[0].text[:EXCERPT]))
        return leaks

    def _together(self, needle: Needle, allowed: frozenset[int] | None) -> frozenset[int]:
        """Return the documents that hold all words of a needle in any order; the rarest word is looked up first."""
        holders = allowed
        for holding in sorted((self._holding(word) for word in set(needle.words)), key=len):
            holders = holding if holders is None else holders & holding
            if not holders:
                break
        return holders or frozenset()


def _readable(path: str, data: bytes, visited: Visited) -> Iterable[tuple[str, str, list[bytes]]]:
    try:
        for document in documents(path, data, visited):
            least = MIN_BINARY_WORD if b"\0" in document.data[:4096] else 1
            yield (
                document.path,
                document.container,
                [word for word in words(document.data) if least <= len(word) <= MAX_WORD],
            )
    except TooLarge:
        # Every task has this layer; a file that an agent cannot unpack within its limits holds no small secret.
        return


def fingerprint(roots: Mapping[str, Path], *extra: str) -> str:
    """Return a digest of paths, sizes and times below ``roots``; it is the same as long as nothing was written."""
    digest = hashlib.sha256(VERSION.encode())
    for shown, root in sorted(roots.items()):
        digest.update(f"{shown}\0{root}\0".encode("utf-8", "surrogateescape"))
        for folder, names, file_names in os.walk(root):
            names.sort()
            for name in sorted(file_names):
                status = os.lstat(os.path.join(folder, name))
                if stat.S_ISREG(status.st_mode):
                    line = f"{folder}/{name}\0{status.st_size}\0{status.st_mtime_ns}\n"
                    digest.update(line.encode("utf-8", "surrogateescape"))
    digest.update("\0".join(extra).encode())
    return digest.hexdigest()
