"""Text that an agent wrote, made safe to read: nothing in it is invisible, reorders its neighbours, or is endless."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...hints.transcript.parsing import clean

# C0 without tab and newline, DEL, C1, zero width and invisible characters, bidi controls, separators, tags, and the
# blank letters of Hangul. Combining marks and right-to-left letters stay, in an element that isolates them.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


@dataclass(frozen=True)
class Text:
    """``head``, then ``left_out`` characters that are not shown, then ``tail``."""

    head: str = ""
    left_out: int = 0
    tail: str = ""

    def __bool__(self) -> bool:
        return bool(self.head or self.left_out)


class Meter:
    """Characters that an episode may still put on the page; ``cap`` bounds a single text."""

    def __init__(self, total: int, cap: int) -> None:
        self.remaining = total
        self.cap = cap

    def show(self, text: str, cap: int | None = None) -> Text:
        """Return as much of ``text`` as may be shown: two thirds from its beginning, one from its end."""
        room = max(0, min(self.cap if cap is None else min(cap, self.cap), self.remaining))
        if len(text) > room:
            head, tail = text[: room - room // 3], text[len(text) - room // 3 :]
            shown = Text(visible(head), len(text) - room, visible(tail))
        else:
            shown = Text(visible(text))
        self.spend(len(shown.head) + len(shown.tail))
        return shown

    def line(self, text: str, cap: int) -> str:
        """Return ``text`` on one line, at most ``cap`` characters."""
        line = one_line(text, max(0, min(cap, self.remaining)))
        self.spend(len(line))
        return line

    def spend(self, characters: int) -> None:
        """Subtract characters that were put on the page."""
        self.remaining -= characters


def visible(text: str) -> str:
    """Return ``text`` with control pictures for control characters and code points for other invisible ones."""
    return _INVISIBLE.sub(_written_out, clean(text.replace("\r\n", "\n")))


def one_line(text: str, cap: int) -> str:
    """Return the beginning of ``text`` with folded white space, cut with an ellipsis after ``cap`` characters."""
    # White space may be most of the text; only four times ``cap`` characters are looked at.
    folded = visible(" ".join(text[: 4 * cap].split()))
    return folded if len(folded) <= cap and len(text) <= 4 * cap else folded[: max(0, cap - 1)] + "…"[:cap]


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"
