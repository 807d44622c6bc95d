"""Needles, which would give removed code away: rare names, docstring phrases, long constants, runs of code words."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .text import Text, joined, read, words

Kind = Literal["name", "docstring", "constant", "code", "bytecode"]

_LANGUAGE = frozenset(name.encode() for name in [*keyword.kwlist, *dir(builtins)])
# From Python 3.12 on an f-string comes in pieces.
_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
MIN_NAME = 6
MIN_CONSTANT = 12
DOCSTRING_WORDS = 5
CODE_WORDS = 8


@dataclass(frozen=True)
class Needle:
    """Words that give the removed code away when they occur in this order."""

    kind: Kind
    words: tuple[bytes, ...]

    @property
    def text(self) -> str:
        return b" ".join(self.words).decode("ascii")


@dataclass(frozen=True)
class Needles:
    """The needles of a task; ``stems`` are the names of edited modules, whose bytecode is a leak by itself."""

    items: tuple[Needle, ...]
    stems: frozenset[str] = frozenset()

    def without(self, common: Iterable[bytes]) -> Needles:
        """Return these needles without the single words in ``common``."""
        dropped = {(word,) for word in common}
        return Needles(tuple(needle for needle in self.items if needle.words not in dropped), self.stems)

    @cached_property
    def by_word(self) -> Mapping[bytes, list[Needle]]:
        """Return the needles by their longest word, which is the least likely to occur by chance."""
        table: dict[bytes, list[Needle]] = {}
        for needle in self.items:
            table.setdefault(max(needle.words, key=len), []).append(needle)
        return table

    def within(self, text: Text) -> Iterator[Needle]:
        """Yield the needles that a document holds."""
        for word in self.by_word.keys() & text.vocabulary:
            yield from (needle for needle in self.by_word[word] if text.says(needle.words))


def needles(
    removed: Iterable[bytes], *, public: Iterable[bytes], prose: Iterable[bytes] = (), stems: Iterable[str] = ()
) -> Needles:
    """Return the needles of ``removed`` (pieces of Python source), without what may legitimately be read.

    ``public`` is all prose and code that the agent may read: statement, interface, remaining modules, visible tests.
    ``prose`` may share names, phrases and messages with the removed code, but not code: documents.
    """
    legitimate, shared = joined([read(text) for text in public]), joined([read(text) for text in prose])
    public_words = legitimate.vocabulary | shared.vocabulary | _LANGUAGE
    secret: list[Needle] = []
    for needle in dict.fromkeys(needle for source in removed for needle in _candidates(source)):
        if len(needle.words) == 1:
            is_public = needle.words[0] in public_words
        else:
            is_public = legitimate.says(needle.words) or (needle.kind != "code" and shared.says(needle.words))
        if not is_public:
            secret.append(needle)
    return Needles(tuple(secret), frozenset(stems))


def _candidates(source: bytes) -> Iterator[Needle]:
    """Yield everything in one piece of source that is long enough, public or not."""
    runs: list[list[bytes]] = [[]]
    for kind, text in _tokens(source):
        parts = words(text)
        if kind == tokenize.NAME and len(text) >= MIN_NAME:
            yield from _single("name", text)
        elif kind in _STRINGS:
            yield from _string(text)
            if len(parts) > DOCSTRING_WORDS:  # prose: documents may quote it
                runs.append([])
                continue
        elif kind not in (tokenize.NAME, tokenize.NUMBER):
            continue
        runs[-1] += parts
    for code in runs:
        for start in range(len(code) - CODE_WORDS + 1):
            yield Needle("code", tuple(code[start : start + CODE_WORDS]))


def _single(kind: Kind, text: bytes) -> Iterator[Needle]:
    parts = words(text)
    if len(parts) == 1 and len(parts[0]) >= MIN_NAME:
        yield Needle(kind, (parts[0],))


def _string(literal: bytes) -> Iterator[Needle]:
    """Yield a docstring or multi-line text in runs of words, and any other constant as a whole."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(literal.decode("utf-8"))
    except (ValueError, SyntaxError):
        value = literal.decode("utf-8", "replace").strip("rRbBfFuU'\"")  # an f-string: its fixed parts
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    if not isinstance(data, bytes) or len(data) < MIN_CONSTANT:
        return
    parts = words(data)
    if b"\n" in data or len(parts) > 2 * DOCSTRING_WORDS:
        for start in range(len(parts) - DOCSTRING_WORDS + 1):
            run = tuple(parts[start : start + DOCSTRING_WORDS])
            if len(b"".join(run)) >= 2 * MIN_CONSTANT:  # five short words say little
                yield Needle("docstring", run)
    elif len(parts) == 1:
        if len(parts[0]) >= MIN_CONSTANT:
            yield Needle("constant", (parts[0],))
    elif sum(map(len, parts)) >= MIN_CONSTANT and max(map(len, parts)) >= 4:
        yield Needle("constant", tuple(parts))


def _tokens(source: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tokens of a piece of source, which need not be a whole module."""
    reader = io.BytesIO(source).readline
    try:
        for token in tokenize.tokenize(reader):
            yield token.type, token.string.encode("utf-8", "replace")
    except (tokenize.TokenError, SyntaxError):
        return  # the end of an indented or cut piece: what came before counts


__all__ = ["CODE_WORDS", "Needle", "Needles", "needles"]
