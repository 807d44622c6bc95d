"""What a shell makes of words before it runs them: variables of the same line, loops, and text that is decoded."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Sequence

MAX_VALUE = 400
"""Characters of a variable's value that is put in; longer ones are left as names."""
MAX_ADDED = 50_000
"""Characters that variables add to one line."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_ENCODED = re.compile(r"[A-Za-z0-9+/\s]{4,}={0,2}\s*")
_DECLARES = frozenset("export local readonly declare typeset".split())


class Variables:
    """The variables that a command line sets, and the words that they stand for. Nothing is run."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._added = 0

    def note(self, words: Sequence[str]) -> None:
        """Remember what assignments set, and what a loop ``for name in words`` gives to its name."""
        if len(words) > 3 and words[0] == "for" and words[2] == "in":
            self._set(words[1], " ".join(words[3:]))
        named = words[1:] if words and words[0] in _DECLARES else words
        matches = [_ASSIGNMENT.fullmatch(word) for word in named]
        for match in matches if all(matches) else ():
            if match is not None:
                self._set(match[1], match[2])

    def _set(self, name: str, value: str) -> None:
        if len(value) <= MAX_VALUE and "$" not in value and "`" not in value:
            self._values[name] = value
        else:
            self._values.pop(name, None)

    def words(self, words: Iterable[str]) -> list[str]:
        """Return the words with the variables put in; a word that is one variable alone may become several."""
        if not self._values:
            return list(words)
        result: list[str] = []
        for word in words:
            put_in = self._put_in(word)
            result += put_in.split() if put_in != word and _VARIABLE.fullmatch(word) else [put_in]
        return result

    def _put_in(self, word: str) -> str:
        if "$" not in word or self._added > MAX_ADDED:
            return word

        def value(match: re.Match[str]) -> str:
            value_set = self._values.get(match[1] or match[2])
            if value_set is None or self._added > MAX_ADDED:
                return match[0]
            if match[0] != word:
                value_set = value_set.split(maxsplit=1)[0] if value_set.strip() else value_set  # one turn of a loop
            self._added += len(value_set)
            return value_set

        return _VARIABLE.sub(value, word)


def decoded(texts: Iterable[str]) -> str:
    """Return what ``base64 -d`` makes of the first text that is encoded so, '' when none is readable."""
    for text in texts:
        if _ENCODED.fullmatch(text):
            try:
                plain = base64.b64decode(text, validate=False).decode("utf-8")
            except (binascii.Error, ValueError):
                continue
            if plain.isprintable() or all(sign.isprintable() or sign in "\n\t" for sign in plain):
                return plain
    return ""


def executed_by_find(words: Sequence[str]) -> list[str]:
    """Return the command that ``find ... -exec`` starts, with the pattern of what is found in place of ``{}``."""
    start = next((at for at, word in enumerate(words) if word in ("-exec", "-execdir", "-ok", "-okdir")), None)
    if start is None:
        return []
    command = []
    for word in words[start + 1 :]:
        if word in (";", "\\;", "+"):
            break
        command.append(word)
    pattern = found(words[:start])
    return [word.replace("{}", pattern) for word in command]


def found(words: Sequence[str]) -> str:
    """Return the pattern of the paths that ``find`` with such arguments gives, as ``tests/test_*.py``."""
    folder = next((word for word in words if not word.startswith(("-", "!"))), ".").rstrip("/")
    names = [
        value
        for flag, value in zip(words, words[1:], strict=False)
        if flag in ("-name", "-iname", "-path", "-ipath", "-wholename")
    ]
    name = names[0] if names else "*"
    return name if name.startswith(folder) or "/" in name else f"{folder}/{name}"
