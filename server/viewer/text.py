"""Text that an agent wrote, made fit to be read: nothing in it hides, reorders what stands beside it, or is endless."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...hints.transcript.parsing import clean

# C0 without tab and newline, DEL, C1, zero width and invisible characters, bidi controls, separators, tags, and the
# blank letters of Hangul. What only looks odd (combining marks, right-to-left letters) stays, in a box of its own.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_WIDEST = 9
"""Characters that one unseen character becomes at most: ``<U+E0001>``."""


@dataclass(frozen=True)
class Text:
    """``head``, then ``left_out`` characters that are not shown, then ``tail``."""

    head: str = ""
    left_out: int = 0
    tail: str = ""

    def __bool__(self) -> bool:
        return bool(self.head or self.left_out)


class Meter:
    """How many characters an episode may still put on the page; ``cap`` is the most that one text may."""

    def __init__(self, total: int, cap: int) -> None:
        self.left = total
        self.cap = cap

    def show(self, text: str, cap: int | None = None) -> Text:
        """As much of ``text`` as may be shown: two thirds from its beginning, one from its end."""
        room = max(0, min(self.cap if cap is None else min(cap, self.cap), self.left))
        if len(text) > room:
            head, tail = text[: room - room // 3], text[len(text) - room // 3 :]
            shown = Text(visible(head), len(text) - room, visible(tail))
        else:
            shown = Text(visible(text))
        self.spend(len(shown.head) + len(shown.tail))
        return shown

    def line(self, text: str, cap: int) -> str:
        """``text`` on one line, at most ``cap`` characters."""
        kept = one_line(text, max(0, min(cap, self.left)))
        self.spend(len(kept))
        return kept

    def spend(self, characters: int) -> None:
        self.left -= characters


def visible(text: str) -> str:
    """``text`` with every unseen character written out: control pictures for the old ones, code points for others."""
    return _UNSEEN.sub(_written, clean(text.replace("\r\n", "\n")))


def one_line(text: str, cap: int) -> str:
    """The beginning of ``text`` with its white space folded, cut with an ellipsis after ``cap`` characters."""
    # What is folded away may be most of it; more than that much of it is not looked at.
    folded = visible(" ".join(text[: 4 * cap].split()))
    return folded if len(folded) <= cap and len(text) <= 4 * cap else folded[: max(0, cap - 1)] + "…"[:cap]


def _written(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"
