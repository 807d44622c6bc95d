"""The status line: the first line of every tool message, written by the environment and never by a command."""

from __future__ import annotations

import re
from dataclasses import dataclass

OUTPUT = 16 * 1024
"""Bytes of output that a tool message holds; what is longer is cut, and says so with ``dropped_mark``."""

BUDGET_ENDED = "The episode has ended: its budget is used up."
"""The environment's message (role ``user``) when turns, tokens or seconds ran out."""

_LINE = re.compile(r"(?P<ok>ok)|exit (?P<exit>\d+)|timeout (?P<timeout>\d+(\.\d+)?)s|error (?P<code>\w+): (?P<text>.*)")
_DROPPED = re.compile(r"^\[\.\.\. \d+ bytes dropped \.\.\.\]$", re.MULTILINE)
_NOTES = ("\n[killed: out of memory]",)


@dataclass(frozen=True)
class Status:
    """``word`` is ``ok``, ``exit``, ``timeout``, ``error``, ``other`` (say ``not run: ...``) or ``none`` (no result).

    ``line`` is the status line, or the words of a result without one that its reader went by. ``code`` belongs to
    ``error``; an ``ok`` with the code ``output_limit`` is a result that another harness cut.
    """

    word: str
    line: str
    exit_code: int | None = None
    code: str = ""
    message: str = ""


NONE = Status("none", "")


def read_status(content: str) -> Status:
    """Read the first line of a tool message; what follows it cannot change the result."""
    line = content.partition("\n")[0]
    match = _LINE.fullmatch(line)
    if match is None:
        return Status("other", line)
    if match["ok"]:
        return Status("ok", line)
    if match["exit"]:
        return Status("exit", line, exit_code=int(match["exit"][:9]))
    if match["timeout"]:
        return Status("timeout", line)
    return Status("error", line, code=match["code"], message=match["text"])


def is_status(content: str) -> bool:
    """Whether a tool message begins as one of our environments begins it."""
    return read_status(content).word != "other" or content.startswith("not run: ")


def dropped_mark(missing: int) -> str:
    """The line that stands for what was cut out of a result."""
    return f"[... {missing} bytes dropped ...]"


def was_cut(body: str) -> bool:
    """Whether the environment cut this body. A command cannot make it seem so: it would have to print more than fits.

    Bytes that were no UTF-8 are counted as one each, so a body is never taken for longer than it was.
    """
    for note in _NOTES:
        body = body.removesuffix(note)
    if len(body) * 4 <= OUTPUT:
        return False
    size = len(body.encode("utf-8", "replace")) - 2 * body.count("\ufffd")
    return size > OUTPUT and _DROPPED.search(body) is not None
