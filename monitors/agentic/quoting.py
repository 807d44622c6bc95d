"""Untrusted text, made safe to show to a model: cleaned, cut, and quoted so that nothing in it can end the quote.

Every line of a quote starts with ``| ``, and every line of ours does not; all characters that end a line, other than
the line feed, are removed or replaced before. Invisible characters (controls, bidirectional marks, zero-width ones)
are removed, so that what the model reads is what a user sees.
"""

from __future__ import annotations

import re
import unicodedata

MARK = "| "
"""Beginning of each quoted line."""
_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_KEPT = "\n\t"
_LINE = 1000
"""Characters of one line that are shown."""


def clean(text: str) -> str:
    """Return the text without invisible characters and terminal escapes; every line ends with a line feed."""
    lines = _BREAKS.sub("\n", _ESCAPES.sub("", text))
    if lines.isascii() and lines.replace("\n", "").replace("\t", "").isprintable():
        return lines
    return "".join(letter for letter in lines if letter in _KEPT or unicodedata.category(letter) not in _INVISIBLE)


def quoted(text: str, limit: int) -> str:
    """Return cleaned text as quoted lines, cut to about ``limit`` characters: head, tail, and how much is missing."""
    if len(text) > limit:
        half = max(1, limit // 2)
        head, tail = _lines(text[:half]), _lines(text[-half:])
        return f"{head}\n[{len(text) - 2 * half} characters are left out here]\n{tail}"
    return _lines(text)


def _lines(text: str) -> str:
    return "\n".join(
        f"{MARK}{line}" if len(line) <= _LINE else f"{MARK}{line[:_LINE]} (cut)" for line in text.split("\n")
    )
