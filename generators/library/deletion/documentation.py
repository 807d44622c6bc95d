"""Redaction of what documents say about deleted code.

Examples are always dropped. For code that is removed with its name, entries and sections about it are dropped too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ...base import Files

MAX_PATHS = 4
"""Documents that a statement names."""
_EXAMPLE = re.compile(r"(?m)^[ \t]*>>>[^\n]*\n?(?:(?![ \t]*$)[^\n]*\n?)*")
_EXAMPLE_HEADING = re.compile(r"(?m)(?:^|(?<=\n))[ \t]*[Ee]xamples?[ \t]*\n[ \t]*([-=~^\"'])\1{2,}\Z")
_SENTENCE_END = re.compile(r"[.!?](?=\s+[^\s:])|\n[ \t]*(?=\n)|:(?=[ \t]*\n[ \t]*\n)")
_FENCE = re.compile(r"(?ms)^[ \t]*```[^\n]*\n.*?^[ \t]*```[ \t]*\n?")
_DIRECTIVE = r"(?m)^([ \t]*)\.\. (?:py:)?(?:auto)?(?:function|method|class|exception|attribute|property|data)::[ \t]*"
_BULLET = re.compile(r"(?m)^([ \t]*)[-*+][ \t]+[^\n]*\n?(?:\1[ \t]+[^\n]*\n?)*")


_CODE_BLOCK = re.compile(
    r"(?m)^([ \t]*)\.\. (?:code|code-block|sourcecode)::[^\n]*\n(?:[ \t]*\n|\1[ \t]+[^\n]*(?:\n|\Z))*"
)


LEAD_WORDS = 9
"""Words from which a sentence before an example says more than that one follows."""
_LEADS = re.compile(r"(?i)\b(?:examples?|instance|following|usage|e\.g)\b")


def redact_docstring(text: str) -> str:
    """Return ``text`` without its interactive examples, and without the words that only lead to one."""
    parts, start = [], 0
    text = _FENCE.sub(lambda match: ">>> _\n\n" if ">>>" in match.group() else match.group(), text)
    for match in _EXAMPLE.finditer(text):
        parts.append(_without_lead(text[start : match.start()]))
        start = match.end()
    return re.sub(r"\n{3,}", "\n\n", "".join([*parts, text[start:]]) if parts else text)


def _without_lead(text: str) -> str:
    """Return the text before an example without directives, headings and sentences that end with a colon at its end."""
    while True:
        stripped = text.rstrip()
        head, _, last = stripped.rpartition("\n")
        if _EXAMPLE_HEADING.search(stripped):
            text = _EXAMPLE_HEADING.sub("", stripped)
        elif last.strip().startswith(".. "):
            text = head
        elif stripped.endswith(":"):
            sentences = list(_SENTENCE_END.finditer(stripped))
            begin = sentences[-1].end() if sentences else 0
            lead = stripped[begin:]
            if len(lead.split()) >= LEAD_WORDS and not _LEADS.search(lead):
                return f"{stripped.rstrip(':')}.\n\n"
            text = stripped[:begin].rstrip()
        else:
            return f"{stripped}\n\n" if stripped else ""


def redacted_paths(documents: Files) -> list[str]:
    """Return the paths of documents that lost a part, without those that are gone as a whole."""
    return sorted(path for path, content in documents.items() if content is not None)


def lost_parts(paths: Sequence[str]) -> str:
    """Return a sentence about documents of the workspace that lost a part; empty without any."""
    if not paths:
        return ""
    names = [f"`{path}`" for path in paths[:MAX_PATHS]]
    more = len(paths) - MAX_PATHS
    names += [f"{more} more document{'s' if more > 1 else ''}"] if more > 0 else []
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    verb = "has" if len(paths) == 1 else "have"
    sentence = f"{text} {verb} lost the examples and entries about this code"
    return f"{sentence}, so a sentence there may announce one that is gone."


def redact_examples(documents: dict[str, bytes], name: str) -> Files:
    """Return the documents that change when every example with ``name`` is dropped; non-UTF-8 documents stay."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return _changed(documents, lambda text: _without_examples(text, word))


def redact_code_blocks(documents: dict[str, bytes], names: Iterable[str]) -> Files:
    """Return the documents that change when every reStructuredText block of code with one of ``names`` is dropped."""
    words = set(names)

    def drop(match: re.Match[str]) -> str:
        return "" if words & set(re.findall(r"\w+", match.group())) else match.group()

    return _changed(documents, lambda text: _CODE_BLOCK.sub(drop, text))


def redact_entries(documents: dict[str, bytes], names: Iterable[str]) -> Files:
    """Return the documents that change when what they say about ``names`` is dropped.

    ``names`` are ``function``, ``Class`` or ``Class.method``. Dropped are examples, directives that document the name
    (with their indented content), autosummary and mkdocs lines, sections under its heading, and list entries (of a
    README or a changelog) that mention it as code. Running prose stays: a sentence without some of its words is wrong.
    """
    chosen = sorted(names)

    def clean(text: str) -> str:
        for name in chosen:
            if name in text:
                text = _without(text, name)
        return text

    return _changed(documents, clean)


def _without(text: str, name: str) -> str:
    """Return the text without the parts about ``name`` that ``redact_entries`` lists."""
    plain = re.escape(name)
    short = re.escape(name.rsplit(".", 1)[-1])
    word = re.compile(rf"(?<![\w.]){plain}\b" if "." in name else rf"\b{plain}\b")
    text = _without_examples(text, word)
    text = re.sub(rf"{_DIRECTIVE}(?:[\w.]*\.)?{plain}\b[^\n]*\n?(?:(?:\1[ \t]+[^\n]*)?\n)*", "", text)
    text = re.sub(rf"(?m)^[ \t]+~?(?:[\w.]*\.)?{plain}[ \t]*\n", "", text)
    text = re.sub(rf"(?m)^:::[ \t]*(?:[\w.]*\.)?{plain}[ \t]*\n(?:[ \t]+[^\n]*\n)*", "", text)
    text = _without_section(text, rf"[`*]*(?:[\w.]*\.)?{plain}(?:\([^\n]*\))?[`*]*")
    code = re.compile(rf"`+~?(?:[\w.]*\.)?{plain}(?:\([^`]*\))?`+" + (rf"|\b{plain}\(" if short == plain else ""))
    return _BULLET.sub(lambda match: "" if code.search(match.group()) else match.group(), text)


def _without_examples(text: str, word: re.Pattern[str]) -> str:
    """Return the text without the examples and fenced blocks that ``word`` is found in."""

    def drop(match: re.Match[str]) -> str:
        return "" if word.search(match.group()) else match.group()

    return _EXAMPLE.sub(drop, _FENCE.sub(drop, text))


def _without_section(text: str, title: str) -> str:
    """Return the text without the section under a heading, in Markdown (``## title``) or reStructuredText."""
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
