"""Text of hints: whole sentences within a length, quotes on one line, lists of names."""

from __future__ import annotations

from collections.abc import Iterable

from ...models import Hint

LONGEST = 400
"""Characters of a hint."""
LONGEST_LIST = 900
"""Characters of a hint that lists the tools: a name that is left out may be the right one."""


def make_hint(template: str, *sentences: str, longest: int = LONGEST) -> Hint:
    """Return the sentences as a Hint of at most ``longest`` characters: whole sentences, as many as fit in order."""
    text = ""
    for sentence in (" ".join(sentence.split()) for sentence in sentences):
        longer = f"{text} {sentence}".strip()
        if len(longer) > longest:
            text = text or longer[: longest - 3] + "..."
            break
        text = longer
    return Hint(text=text, source="template", template=template, role="user")


def quote(text: str, longest: int = 60) -> str:
    """Return a piece of text on one line, in quotes, cut to ``longest`` characters."""
    line = " ".join(text.split())
    return f"`{line if len(line) <= longest else line[: longest - 3] + '...'}`"


def listed(names: Iterable[str], room: int = 220) -> str:
    """Return names in a row, as many as fit into ``room`` characters, and the number of the others."""
    names = list(names)
    shown: list[str] = []
    for name in names:
        if shown and len(", ".join([*shown, name])) > room:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(name[:room])
    return ", ".join(shown)
