"""Examples that show the deleted function at work: dropped from docstrings and from prose, the prose itself stays."""

from __future__ import annotations

import re

from .. import Files

_EXAMPLE = re.compile(r"(?m)^[ \t]*>>>[^\n]*\n?(?:(?![ \t]*$)[^\n]*\n?)*")
_FENCE = re.compile(r"(?ms)^[ \t]*```[^\n]*\n.*?^[ \t]*```[ \t]*\n?")


def redact_docstring(text: str) -> str:
    """``text`` without its interactive examples."""
    return re.sub(r"\n{3,}", "\n\n", _EXAMPLE.sub("", text))


def redact_examples(documents: dict[str, bytes], name: str) -> Files:
    """The documents that change when every example naming ``name`` is dropped. Non-UTF-8 documents stay."""
    word = re.compile(rf"\b{re.escape(name)}\b")

    def drop(found: re.Match[str]) -> str:
        return "" if word.search(found.group()) else found.group()

    changed: Files = {}
    for path, data in documents.items():
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        redacted = _EXAMPLE.sub(drop, _FENCE.sub(drop, text))
        if redacted != text:
            changed[path] = redacted.encode()
    return changed
