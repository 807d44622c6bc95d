"""Whether a hint gives away what only a task's secret parts say: its solution and its hidden tests.

The leak scanner (``monitors.leaks``) looks for the same things in whole trees: rare names, phrases of docstrings, long
constants, runs of code words. A hint is short, so shorter runs count here, and a line of code as a whole.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

MIN_NAME = 6
MIN_LINE = 10
RUN_WORDS = 5
RUN_LETTERS = 20
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")
_LANGUAGE = frozenset([*keyword.kwlist, *dir(builtins)])
# What prose does not have inside a word: an underscore, a digit after a letter, a capital after a small letter.
_CODED = re.compile(r"(?<=[^\W_])_+(?=[^\W_])|[A-Za-z]\d|[a-z][A-Z]")
_OPERATOR = re.compile(r"[=(\[{<>+*/%&|^@]")
_STRING = re.compile(r"\"([^\"\n]{8,})\"|'([^'\n]{8,})'")
_DIFF = re.compile(r"^(?:diff --git |--- |\+\+\+ |@@ )", re.MULTILINE)


def reveals(text: str, secrets: Sequence[str], said: Sequence[str] = ()) -> str | None:
    """The words of ``text`` that a secret holds and nothing in ``said`` does; ``None`` when it gives nothing away.

    ``secrets`` are the solution and the hidden tests, as source or as unified diffs (of a diff, the lines that it adds
    and the files that it makes), and ids of tests. ``said`` is what the agent may know: the statement, the workspace.
    It is about wording: a paraphrase is not found.
    """
    known, hint = _Known(tuple(said)), _squeezed(text)
    spoken = _WORD.findall(text)
    vocabulary, phrase = set(spoken), _phrase(spoken)
    for secret in secrets:
        for line in _secret_lines(secret):
            for needle in _whole(line):
                if needle in hint and needle not in known.squeezed:
                    return line.strip()[:200]
            for run in _runs(line):
                if vocabulary.issuperset(run) and _phrase(run) in phrase and _phrase(run) not in known.phrase:
                    return " ".join(run)
            for name in _names(line):
                if name in vocabulary and name not in known.vocabulary:
                    return name
    return None


class _Known:
    """What may be said, in the three forms in which it is looked up."""

    def __init__(self, said: tuple[str, ...]) -> None:
        self.squeezed, self.phrase, self.vocabulary = _known(said)


@lru_cache(maxsize=16)
def _known(said: tuple[str, ...]) -> tuple[str, str, frozenset[str]]:
    spoken = [_WORD.findall(text) for text in said]
    return (
        "\n".join(_squeezed(text) for text in said),
        "\n".join(_phrase(parts) for parts in spoken),
        frozenset(word for parts in spoken for word in parts),
    )


def _squeezed(text: str) -> str:
    return _SPACE.sub("", text)


def _phrase(parts: Iterable[str]) -> str:
    """Words joined so that one phrase is part of another exactly when it is a substring."""
    return f" {' '.join(parts)} "


@lru_cache(maxsize=64)
def _secret_lines(secret: str) -> tuple[str, ...]:
    """The lines of a secret; of a diff those that it adds, and the names of the files that it makes."""
    lines = secret.splitlines()
    if len(_DIFF.findall(secret)) < 2:
        return tuple(dict.fromkeys(line for line in lines if line.strip()))
    found: list[str] = []
    makes = False
    for line in lines:
        if line.startswith("--- "):
            makes = line.startswith("--- /dev/null")
        elif line.startswith("+++ "):
            if makes:
                found.append(line.removeprefix("+++ ").removeprefix("b/"))
        elif line.startswith("+"):
            found.append(line[1:])
    return tuple(dict.fromkeys(line for line in found if line.strip()))


def _whole(line: str) -> Iterator[str]:
    """The line without its spaces when it is code, and each longer string in it."""
    squeezed = _squeezed(line)
    if len(squeezed) >= MIN_LINE and _OPERATOR.search(line):
        yield squeezed
    for match in _STRING.finditer(line):
        value = _squeezed(match[1] or match[2])
        if len(value) >= MIN_LINE:
            yield value


def _runs(line: str) -> Iterator[tuple[str, ...]]:
    """Every RUN_WORDS words in a row that have RUN_LETTERS letters together: fewer say little."""
    parts = _WORD.findall(line)
    for start in range(len(parts) - RUN_WORDS + 1):
        run = tuple(parts[start : start + RUN_WORDS])
        if len("".join(run)) >= RUN_LETTERS:
            yield run


def _names(line: str) -> Iterator[str]:
    """Names that no prose has by chance."""
    for name in _WORD.findall(line):
        if len(name) >= MIN_NAME and name not in _LANGUAGE and _CODED.search(name):
            yield name
