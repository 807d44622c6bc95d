"""Text from outside, made safe to print: one line, without control characters, keys or passwords."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

_MIN_SECRET = 12
"""Length below which a key is taken for a placeholder such as ``EMPTY``, a word that a model may write itself."""
_MAX_LINE = 300
"""Characters of foreign text that one message shows."""


def one_line(text: object) -> str:
    """Return the first 300 characters of a text on one line; unprintable characters are replaced."""
    line = " ".join(str(text).split())[:_MAX_LINE]
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)


def masked(text: str, key: str) -> str:
    """Return ``text`` with every spelling of ``key`` that JSON allows replaced by ``***``."""
    return _spellings(key).sub("***", text) if key else text


def secret_in(key: str) -> str:
    """Return the text to mask in answers: the key, or the whole header when the key is a short placeholder."""
    return key if len(key) >= _MIN_SECRET or not key else f"Bearer {key}"


def shown(url: str) -> str:
    """Return an address without its user, password and query."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = None
    if parts is not None and parts.hostname:
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    # Not an address: whatever is in front of an @ may be a password.
    scheme, separator, path = url.rpartition("://")
    path = re.split(r"[?#]", (path if scheme.isalpha() else url).rpartition("@")[2])[0]
    return f"{scheme}{separator}{path}" if scheme.isalpha() else path


@lru_cache(maxsize=8)
def _spellings(key: str) -> re.Pattern[str]:
    """Return a pattern for a key, each letter as itself, behind a backslash, or as a JSON escape."""
    return re.compile("".join(rf"(?:\\?{re.escape(letter)}|\\u(?i:{ord(letter):04x}))" for letter in key))
