"""The status line: the first line of every tool message, written by the environment and never by a command."""

from __future__ import annotations

import re
from dataclasses import dataclass

OUTPUT = 16 * 1024
"""Bytes of output that a tool message holds; what is longer is cut, and says so with ``dropped_mark``."""

BUDGET_ENDED = "The episode has ended: its budget is used up."
"""The environment's message (role ``user``) when turns, tokens or seconds ran out."""
OUT_OF_MEMORY = "\n[killed: out of memory]"
"""The environment's note after the output of a command that was killed for using too much memory."""

_LINE = re.compile(r"(?P<ok>ok)|exit (?P<exit>\d+)|timeout (?P<timeout>\d+(\.\d+)?)s|error (?P<code>\w+): (?P<text>.*)")
_DROPPED = re.compile(r"^\[\.\.\. \d+ bytes dropped \.\.\.\]$", re.MULTILINE)


@dataclass(frozen=True)
class Status:
    """The outcome of a call.

    ``word`` is ``ok``, ``exit``, ``timeout``, ``error``, ``other`` (such as ``not run: ...``) or ``none`` (no result).
    ``line`` is the status line, or in a result without one the words that show the outcome. ``code`` belongs to
    ``error``; an ``ok`` with the code ``output_limit`` is a result that another harness cut.
    """

    word: str
    line: str
    exit_code: int | None = None
    code: str = ""
    message: str = ""


NONE = Status("none", "")


def read_status(content: str) -> Status:
    """Return the status in the first line of a tool message; the lines after it cannot change it."""
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
    """Return whether a tool message begins as one of our environments begins it."""
    return read_status(content).word != "other" or content.startswith("not run: ")


def dropped_mark(missing: int) -> str:
    """Return the line that stands for the bytes that were cut out of a result."""
    return f"[... {missing} bytes dropped ...]"


def was_cut(body: str) -> bool:
    """Return whether the environment cut this body; a command cannot fake that without printing more than fits.

    Bytes that are not UTF-8 count as one each, so the size of a body is never overestimated.
    """
    body = body.removesuffix(OUT_OF_MEMORY)
    if len(body) * 4 <= OUTPUT:
        return False
    size = len(body.encode("utf-8", "replace")) - 2 * body.count("\ufffd")
    return size > OUTPUT and _DROPPED.search(body) is not None
