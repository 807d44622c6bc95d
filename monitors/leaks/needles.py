"""Needles: words that would give removed code away, such as rare names, phrases of docstrings and runs of code."""

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
FEW = 24
"""Most longest words that are looked for one by one."""


@dataclass(frozen=True)
class Needle:
    """Words that betray the removed code where they occur in this order."""

    kind: Kind
    words: tuple[bytes, ...]

    @property
    def text(self) -> str:
        """Return the words with spaces between them."""
        return b" ".join(self.words).decode("ascii")


@dataclass(frozen=True)
class Needles:
    """Everything that would give one task away."""

    items: tuple[Needle, ...]
    stems: frozenset[str] = frozenset()
    """File names, without suffix, of edited modules: their bytecode is always a leak."""

    def without(self, common: Iterable[bytes]) -> Needles:
        """Return these needles without single words that are ``common``."""
        dropped = {(word,) for word in common}
        return Needles(tuple(needle for needle in self.items if needle.words not in dropped), self.stems)

    @cached_property
    def by_word(self) -> Mapping[bytes, list[Needle]]:
        """Return the needles by their longest word, the one least likely to occur by chance."""
        table: dict[bytes, list[Needle]] = {}
        for needle in self.items:
            table.setdefault(max(needle.words, key=len), []).append(needle)
        return table

    @cached_property
    def longest_words(self) -> frozenset[bytes]:
        """Return the longest word of each needle: a document without any of them holds no needle."""
        return frozenset(self.by_word)

    @property
    def are_few(self) -> bool:
        """Return whether to look for each of the longest words takes less time than to take bytes apart."""
        return len(self.longest_words) <= FEW

    def stand_in(self, data: bytes) -> bool:
        """Return whether bytes hold the longest word of a needle, be it a part of another word."""
        return any(word in data for word in self.longest_words)

    def may_be_in(self, data: bytes) -> bool:
        """Return whether a document may hold a needle; True may be wrong, False never is."""
        return self.stand_in(data) if self.are_few else not self.longest_words.isdisjoint(words(data))

    def within(self, text: Text) -> Iterator[Needle]:
        """Yield the needles that a document holds."""
        for word in self.by_word.keys() & text.vocabulary:
            yield from (needle for needle in self.by_word[word] if text.contains(needle.words))


def needles(
    removed: Iterable[bytes], *, visible: Iterable[bytes], prose: Iterable[bytes] = (), stems: Iterable[str] = ()
) -> Needles:
    """Return the needles of ``removed`` (pieces of Python source) without those that the agent may read.

    ``visible`` is all prose and code that the agent is given on purpose: statement, interface, remaining modules,
    visible tests. ``prose`` are documents, which may share names, phrases and messages with the removed code, but not
    code.
    """
    legitimate, shared = joined([read(text) for text in visible]), joined([read(text) for text in prose])
    harmless_words = legitimate.vocabulary | shared.vocabulary | _LANGUAGE

    def is_harmless(needle: Needle) -> bool:
        if len(needle.words) == 1:
            return needle.words[0] in harmless_words
        return legitimate.contains(needle.words) or (needle.kind != "code" and shared.contains(needle.words))

    candidates = dict.fromkeys(needle for source in removed for needle in _candidates(source))
    return Needles(tuple(needle for needle in candidates if not is_harmless(needle)), frozenset(stems))


def _candidates(source: bytes) -> Iterator[Needle]:
    """Yield everything long enough in a piece of source, whether or not the agent may read it elsewhere."""
    runs: list[list[bytes]] = [[]]
    for kind, text in _tokens(source):
        parts = words(text)
        if kind == tokenize.NAME and len(text) >= MIN_NAME:
            if len(parts) == 1 and len(parts[0]) >= MIN_NAME:
                yield Needle("name", (parts[0],))
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
            if len(b"".join(run)) >= 2 * MIN_CONSTANT:  # five short words occur by chance
                yield Needle("docstring", run)
    elif len(parts) == 1:
        if len(parts[0]) >= MIN_CONSTANT:
            yield Needle("constant", (parts[0],))
    elif sum(map(len, parts)) >= MIN_CONSTANT and max(map(len, parts)) >= 4:
        yield Needle("constant", tuple(parts))


def _tokens(source: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and text of the tokens of a piece of source, which need not be a whole module."""
    try:
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            yield token.type, token.string.encode("utf-8", "replace")
    except (tokenize.TokenError, SyntaxError):
        return  # the end of an indented or cut piece: what came before counts
