"""What a docstring says about a parameter: entries in the styles of Sphinx, Google and NumPy, lists, paragraphs."""

from __future__ import annotations

import re
import textwrap

_FENCE = re.compile(r"(?ms)^[ \t]*```[^\n]*\n.*?^[ \t]*```[ \t]*\n?")


def without_parameter(text: str, name: str) -> tuple[str, list[str]]:
    """Return the docstring without what it says about a parameter, and the parts that it loses, in order.

    Lost are the entry of the parameter, and every later paragraph that mentions it as code or emphasized. Examples in
    fences that use it go too, but are not returned.
    """
    removed: list[str] = []

    def take(match: re.Match[str]) -> str:
        removed.append(textwrap.dedent(match.group()).strip("\n"))
        return ""

    plain = re.escape(name)
    more = r"(?:\1[ \t]+\S[^\n]*(?:\n|\Z)|[ \t]*\n(?=\1[ \t]+\S))*"
    sphinx = rf"(?m)^([ \t]*):(?:param|parameter|arg|argument|key|keyword|type)\b[^:\n]*\b{plain}:[^\n]*(?:\n|\Z){more}"
    marked = rf"[`*'\"]*{plain}[`*'\"]*"
    entry = rf"(?m)^([ \t]*)(?:[-*+][ \t]+)?{marked}(?:[ \t]*\([^)\n]*\))?[ \t]*:(?:[ \t][^\n]*)?(?:\n|\Z){more}"
    dashed = rf"(?m)^([ \t]*)(?:[-*+][ \t]+)?{marked}[ \t]+(?:--?|–)[ \t][^\n]*(?:\n|\Z){more}"
    for pattern in (sphinx, entry, dashed):
        text = re.sub(pattern, take, text)
    mention = re.compile(rf"(?<![\w*`])(?:\*{plain}\*|`+{plain}`+|`+{plain}=[^`]*`+)(?![\w*`])|(?<![\w.]){plain}=")
    text = _FENCE.sub(lambda match: "" if re.search(rf"\b{plain}\b", match.group()) else match.group(), text)
    paragraphs = re.split(r"(\n[ \t]*\n)", text)
    for number in range(2, len(paragraphs), 2):
        if mention.search(paragraphs[number]) and "```" not in paragraphs[number]:
            lines = paragraphs[number].rstrip("\"' \t\n")  # the last paragraph ends the literal
            removed.append(textwrap.dedent(lines.strip("\n")))
            paragraphs[number] = paragraphs[number][len(lines) :].lstrip("\n")
            if number + 1 < len(paragraphs):
                paragraphs[number - 1] = ""
    return "".join(paragraphs), [part for part in removed if part.strip()]
