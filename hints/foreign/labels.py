"""What a harness puts before the words of a failure or of a success: ``Error:``, ``[ERROR]``, a cross, ``Result:``."""

from __future__ import annotations

import re

_I = re.IGNORECASE
_SIGNS = "❌✖✗✘×⚠️🚫🛑⛔💥❗‼🔴⏱⏰"
_WHAT = r"(?:tool|command|function|code|cell|bash|shell|terminal|python|action|call|execution|program|script|operation)"
_LABEL = re.compile(
    rf"\s*(?:[{_SIGNS}\ufe0f]+[ \t]*|(?:\*{{1,2}}(?:\w{{1,20}} )?(?:error|failed|failure):?\*{{1,2}}:?"
    r"|\[(?:\w{1,20}[ _])?(?:error|failed|fail|failure|stderr)\]:?|stderr:"
    rf"|(?:{_WHAT}[ _]){{0,2}}(?:error|failed|failure|exception)"
    rf"(?: (?:executing|running|calling|in|from) (?:the )?{_WHAT})?:|{_WHAT} (?:returned|raised"
    rf"|reported) an error:)[ \t]+)",
    _I,
)
_TITLE = re.compile(
    r"\s*(?:(?:tool|function|command|execution|action)[ _])?(?:observation|result|output|response)s?:[ \t]+"
    r"(?=\S)(?!(?:error|failed|failure)\s*(?:$|\n|[,;.]))",
    _I,
)
_MOST = 3


def unlabelled(text: str) -> str:
    """A text without the harness's labels of a failure before it; the text itself where nothing would be left."""
    rest = text
    for _ in range(_MOST):
        found = _LABEL.match(rest[:200])
        if found is None or not rest[found.end() :].strip():
            break
        rest = rest[found.end() :]
    return rest


def unsigned(text: str) -> str:
    """A text without the signs of failure before its first words."""
    return text.lstrip().lstrip(_SIGNS + "\ufe0f ") if text.lstrip()[:1] in _SIGNS and text.strip() else text


def untitled(text: str) -> str:
    """A text without ``Observation:`` or the like before its first words."""
    found = _TITLE.match(text[:200])
    return text[found.end() :] if found else text
