"""What can go wrong when a model is asked; each message is one line to show."""

from __future__ import annotations


class Again(Exception):
    """An attempt failed and another may not. ``lost``: it may be charged for; ``wait``: seconds that were asked for."""

    def __init__(self, cause: str, *, wait: float | None = None, lost: bool = False) -> None:
        super().__init__(cause)
        self.wait = wait
        self.lost = lost


def one_line(text: object) -> str:
    """What others wrote, as a terminal can show it: 300 characters at most, none that moves its cursor."""
    line = " ".join(str(text).split())[:300]
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
