"""The parts of a statement: blocks and quotations, list items, and paragraphs with their code and technical words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(.*)")
_HEADING = re.compile(r"#{1,6}\s+(.*)")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_TECHNICAL = re.compile(r"[\d_=<>]|\w[.\\(]\w|[a-z][A-Z]|^(?:True|False|None)$")
_JOINT = re.compile(r"[—–/*]|(?<=\w)-(?=\w)")
_EMPHASIS = re.compile(r"^_([^_]+)_$")
_PUNCTUATION = ".,;:!?()[]{}\"“”‘’'*…"
_ABBREVIATIONS = frozenset({"e.g", "i.e", "a.k.a"})

Kind = Literal["block", "quotation", "heading", "item", "paragraph"]


@dataclass(frozen=True)
class Part:
    """One part of a Markdown text."""

    kind: Kind
    """What it is; a ``block`` is fenced."""
    text: str
    """The text: as it is for blocks and quotations, on one line and without its marker for the others."""

    @property
    def code(self) -> list[str]:
        """Return the code spans of a part that is neither a block nor a quotation."""
        return [match[2].strip() for match in _SPAN.finditer(self.text)]

    @property
    def technical_words(self) -> list[str]:
        """Return the words outside code spans that are names, versions, numbers or constants of Python."""
        prose = _JOINT.sub(" ", _SPAN.sub(" ", self.text))
        tokens = [_EMPHASIS.sub(r"\1", token.strip(_PUNCTUATION)) for token in prose.split()]
        tokens = [re.sub(r"['’]s$", "", token) for token in tokens]
        return [token for token in tokens if _TECHNICAL.search(token) and token.lower() not in _ABBREVIATIONS]


def parts_of(text: str) -> list[Part]:
    """Return the parts of a text, in order. A block that is not closed reaches to the end."""
    parts: list[Part] = []
    for kind, lines in _grouped(text.strip("\n").split("\n")):
        if kind in ("block", "quotation"):
            parts.append(Part(kind, "\n".join(line.rstrip() for line in lines)))
        else:
            parts.append(Part(kind, " ".join(" ".join(lines).split())))
    return parts


def _grouped(lines: list[str]) -> Iterator[tuple[Kind, list[str]]]:
    """Yield the kind and the lines of each part; a blank line is a part without text."""
    kind: Kind = "paragraph"
    group: list[str] = []
    fence = ""
    for line in lines:
        if fence:
            group.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                yield kind, group
                kind, group, fence = "paragraph", [], ""
            continue
        next_kind, content, begins = _read(line, kind if group else "paragraph")
        if begins and group:
            yield kind, group
            group = []
        kind = next_kind
        group += [content] if content else []
        opening = _FENCE.match(line)
        fence = opening[1] if opening else ""
    if group:
        yield kind, group


def _read(line: str, before: Kind) -> tuple[Kind, str, bool]:
    """Return the kind of a line, its content, and whether it begins a part; ``before`` is the part that it follows."""
    if _FENCE.match(line):
        return "block", line, True
    if line.startswith(">"):
        return "quotation", line, before != "quotation"
    if match := _HEADING.fullmatch(line):
        return "heading", match[1], True
    if match := _ITEM.fullmatch(line):
        return "item", match[1], True
    if not line.strip():
        return "paragraph", "", True
    return ("item" if before == "item" else "paragraph"), line, before in ("quotation", "heading")
