"""Text as a sequence of words, so that formatting, quoting and encoding hide nothing."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

# Everything but ASCII letters, digits and the underscore separates words.
_WORD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
_TABLE = bytes(byte if byte in _WORD else 32 for byte in range(256))
_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
_NUL_SHARE = 4
MAX_ASKED = 1 << 16
"""Most digests that are remembered of bytes that were read once and not cached."""


def words(data: bytes) -> list[bytes]:
    """Return the words in order. UTF-8 and Latin-1 need no decoding: every byte that is not ASCII separates words."""
    return data.translate(_TABLE).split()


def phrase(parts: Sequence[bytes]) -> bytes:
    """Return the words joined so that one phrase is part of another exactly when it is a substring."""
    return b" " + b" ".join(parts) + b" "


def narrow(data: bytes) -> bytes:
    """Return the bytes without the NULs of UTF-16 and UTF-32, with or without a byte order mark."""
    head = data[:4096]
    if b"\0" not in head and not head.startswith(_MARKS):
        return data
    few, many = sorted((head[::2].count(0), head[1::2].count(0)))
    share = len(head) // _NUL_SHARE
    is_wide = head.startswith(_MARKS) or (share and many > share and few < many // _NUL_SHARE)
    return data.replace(b"\0", b"") if is_wide else data


@dataclass(frozen=True)
class Text:
    """The words of a document."""

    data: bytes
    """Its bytes."""
    vocabulary: frozenset[bytes]
    """Each word once."""

    @cached_property
    def whole(self) -> bytes:
        """Return all words as one phrase; few documents hold enough words of a needle to need it."""
        return phrase(words(self.data))

    def contains(self, parts: tuple[bytes, ...]) -> bool:
        """Return whether the words occur in this order, next to each other."""
        if len(parts) == 1:
            return parts[0] in self.vocabulary
        return self.vocabulary.issuperset(parts) and phrase(parts) in self.whole


def joined(texts: Sequence[Text]) -> Text:
    """Return several documents as one, in which no phrase runs from one into the next."""
    together = Text(b"", frozenset().union(*(text.vocabulary for text in texts)))
    together.__dict__["whole"] = b"\n".join(text.whole for text in texts)
    return together


class TextCache:
    """Texts by the digest of their bytes, up to ``limit`` bytes: tasks of one package share nearly all their files."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._texts: OrderedDict[bytes, Text] = OrderedDict()
        self._asked: set[bytes] = set()
        self._guard = threading.Lock()

    def clear(self) -> None:
        """Forget everything, as benchmarks need."""
        with self._guard:
            self._texts.clear()
            self._asked.clear()
            self._size = 0

    def is_repeated(self, digest: bytes) -> bool:
        """Return whether this was asked for the digest before; what is read a second time is worth a place here."""
        with self._guard:
            if digest in self._asked:
                return True
            if len(self._asked) >= MAX_ASKED:
                self._asked.clear()
            self._asked.add(digest)
            return False

    def known(self, digest: bytes) -> Text | None:
        """Return the Text of the bytes with a digest, None when it is not in the cache."""
        with self._guard:
            return self._texts.get(digest)

    def __call__(self, data: bytes, digest: bytes = b"") -> Text:
        """Return the Text of some bytes; ``digest`` is a digest of them where one is known."""
        key = digest or hashlib.blake2b(data, digest_size=16).digest()
        with self._guard:
            if key in self._texts:
                self._texts.move_to_end(key)
                return self._texts[key]
        text = Text(data, frozenset(words(data)))
        with self._guard:
            if key not in self._texts:
                self._texts[key] = text
                self._size += len(data)
            while self._size > self._limit:
                self._size -= len(self._texts.popitem(last=False)[1].data)
        return text


read = TextCache(32 << 20)
"""The cache of the process: call it with bytes for their Text."""
