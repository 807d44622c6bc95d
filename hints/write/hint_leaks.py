"""Check of whether a hint gives away what only a task's secret parts say: its solution and its hidden tests.

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


def reveals(text: str, secrets: Sequence[str], public_texts: Sequence[str] = ()) -> str | None:
    """Return the words of ``text`` that a secret holds and no public text does; ``None`` when it gives nothing away.

    ``secrets`` are the solution and the hidden tests, as source or as unified diffs (of which the added lines and the
    new files count), and ids of tests. ``public_texts`` are what the agent may know: the statement, the workspace. Only
    wording is compared: a paraphrase is not found.
    """
    public, public_phrases, public_words = _public_forms(tuple(public_texts))
    hint, spoken = _squeezed(text), _WORD.findall(text)
    vocabulary, phrase = set(spoken), _phrase(spoken)
    for line in (line for secret in secrets for line in _secret_lines(secret)):
        for needle in _code_and_strings(line):
            if needle in hint and needle not in public:
                return line.strip()[:200]
        for run in _runs(line):
            if vocabulary.issuperset(run) and _phrase(run) in phrase and _phrase(run) not in public_phrases:
                return " ".join(run)
        for name in _rare_names(line):
            if name in vocabulary and name not in public_words:
                return name
    return None


@lru_cache(maxsize=16)
def _public_forms(texts: tuple[str, ...]) -> tuple[str, str, frozenset[str]]:
    """Return the public texts without spaces, as phrases, and as a set of words."""
    spoken = [_WORD.findall(text) for text in texts]
    return (
        "\n".join(map(_squeezed, texts)),
        "\n".join(map(_phrase, spoken)),
        frozenset(word for words in spoken for word in words),
    )


def _squeezed(text: str) -> str:
    return _SPACE.sub("", text)


def _phrase(words: Iterable[str]) -> str:
    """Return words joined so that one phrase is part of another exactly when it is a substring."""
    return f" {' '.join(words)} "


@lru_cache(maxsize=64)
def _secret_lines(secret: str) -> tuple[str, ...]:
    """Return the lines of a secret; of a diff those that it adds, and the names of the files that it creates."""
    lines = secret.splitlines()
    if len(_DIFF.findall(secret)) >= 2:
        creates, added = False, []
        for line in lines:
            if line.startswith("--- "):
                creates = line.startswith("--- /dev/null")
            elif line.startswith("+++ "):
                added += [line.removeprefix("+++ ").removeprefix("b/")] if creates else []
            elif line.startswith("+"):
                added.append(line[1:])
        lines = added
    return tuple(dict.fromkeys(line for line in lines if line.strip()))


def _code_and_strings(line: str) -> Iterator[str]:
    """Yield the line without its spaces when it is code, and each longer string in it."""
    squeezed = _squeezed(line)
    if len(squeezed) >= MIN_LINE and _OPERATOR.search(line):
        yield squeezed
    strings = (_squeezed(match[1] or match[2]) for match in _STRING.finditer(line))
    yield from (string for string in strings if len(string) >= MIN_LINE)


def _runs(line: str) -> Iterator[tuple[str, ...]]:
    """Yield every RUN_WORDS words in a row that have RUN_LETTERS letters together."""
    words = _WORD.findall(line)
    runs = (tuple(words[start : start + RUN_WORDS]) for start in range(len(words) - RUN_WORDS + 1))
    yield from (run for run in runs if len("".join(run)) >= RUN_LETTERS)


def _rare_names(line: str) -> Iterator[str]:
    """Yield the names that prose does not contain by chance."""
    names = (name for name in _WORD.findall(line) if len(name) >= MIN_NAME and name not in _LANGUAGE)
    yield from filter(_CODED.search, names)
