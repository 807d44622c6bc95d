"""What documents say of deleted code: examples always go; of code that is removed whole, entries and sections too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ...base import Files

_EXAMPLE = re.compile(r"(?m)^[ \t]*>>>[^\n]*\n?(?:(?![ \t]*$)[^\n]*\n?)*")
_FENCE = re.compile(r"(?ms)^[ \t]*```[^\n]*\n.*?^[ \t]*```[ \t]*\n?")
_DIRECTIVE = r"(?m)^([ \t]*)\.\. (?:py:)?(?:auto)?(?:function|method|class|exception|attribute|property|data)::[ \t]*"
_BULLET = re.compile(r"(?m)^([ \t]*)[-*+][ \t]+[^\n]*\n?(?:\1[ \t]+[^\n]*\n?)*")


def redact_docstring(text: str) -> str:
    """``text`` without its interactive examples."""
    return re.sub(r"\n{3,}", "\n\n", _EXAMPLE.sub("", text))


def redact_examples(documents: dict[str, bytes], name: str) -> Files:
    """The documents that change when every example naming ``name`` is dropped. Non-UTF-8 documents stay."""
    word = re.compile(rf"\b{re.escape(name)}\b")

    def drop(found: re.Match[str]) -> str:
        return "" if word.search(found.group()) else found.group()

    return _changed(documents, lambda text: _EXAMPLE.sub(drop, _FENCE.sub(drop, text)))


def redact_entries(documents: dict[str, bytes], names: Iterable[str]) -> Files:
    """The documents without what they say of ``names`` (``function``, ``Class``, ``Class.method``).

    Gone are: examples, directives that document it (with what is indented below), autosummary and mkdocs lines,
    sections under its heading, and list entries (of a README, a changelog) that name it as code. Running prose stays:
    to cut words out of sentences makes them wrong.
    """
    chosen = sorted(names)

    def clean(text: str) -> str:
        for name in chosen:
            if name in text:
                text = _without(text, name)
        return text

    return _changed(documents, clean)


def _without(text: str, name: str) -> str:
    plain = re.escape(name)
    short = re.escape(name.rsplit(".", 1)[-1])
    word = re.compile(rf"(?<![\w.]){plain}\b" if "." in name else rf"\b{plain}\b")

    def drop(found: re.Match[str]) -> str:
        return "" if word.search(found.group()) else found.group()

    text = _EXAMPLE.sub(drop, _FENCE.sub(drop, text))
    text = re.sub(rf"{_DIRECTIVE}(?:[\w.]*\.)?{plain}\b[^\n]*\n?(?:(?:\1[ \t]+[^\n]*)?\n)*", "", text)
    text = re.sub(rf"(?m)^[ \t]+~?(?:[\w.]*\.)?{plain}[ \t]*\n", "", text)
    text = re.sub(rf"(?m)^:::[ \t]*(?:[\w.]*\.)?{plain}[ \t]*\n(?:[ \t]+[^\n]*\n)*", "", text)
    text = _without_section(text, rf"[`*]*(?:[\w.]*\.)?{plain}(?:\([^\n]*\))?[`*]*")
    code = re.compile(rf"`+~?(?:[\w.]*\.)?{plain}(?:\([^`]*\))?`+" + (rf"|\b{plain}\(" if short == plain else ""))
    return _BULLET.sub(lambda found: "" if code.search(found.group()) else found.group(), text)


def _without_section(text: str, title: str) -> str:
    """Without the section of that heading: Markdown's ``## title``, or a title underlined as in reStructuredText."""
    text = re.sub(rf"(?ms)^(#+)[ \t]+{title}[ \t]*\n.*?(?=^#{{1,6}}[ \t]|\Z)", "", text)
    underlined = (
        rf"(?ms)^{title}[ \t]*\n([=\-~^\"'+*#.])\1{{2,}}[ \t]*\n.*?(?=^[^\s][^\n]*\n([=\-~^\"'+*#.])\2{{2,}}[ \t]*$|\Z)"
    )
    return re.sub(underlined, "", text)


def _changed(documents: dict[str, bytes], clean: Callable[[str], str]) -> Files:
    changed: Files = {}
    for path, data in documents.items():
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        redacted = clean(text)
        if redacted != text:
            changed[path] = redacted.encode()
    return changed
