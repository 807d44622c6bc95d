"""The status line: the first line of every tool message, written by the environment and never by a command."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"(?P<ok>ok)|exit (?P<exit>\d+)|timeout (?P<timeout>\d+(\.\d+)?)s|error (?P<code>\w+): (?P<text>.*)")


@dataclass(frozen=True)
class Status:
    """``word`` is ``ok``, ``exit``, ``timeout``, ``error`` or ``other`` (``not run: ...``, for one)."""

    word: str
    line: str
    exit_code: int | None = None
    code: str = ""
    message: str = ""


def read_status(content: str) -> Status:
    """Read the first line of a tool message; what follows it cannot change the result."""
    line = content.partition("\n")[0]
    match = _LINE.fullmatch(line)
    if match is None:
        return Status("other", line)
    if match["ok"]:
        return Status("ok", line)
    if match["exit"]:
        return Status("exit", line, exit_code=int(match["exit"]))
    if match["timeout"]:
        return Status("timeout", line)
    return Status("error", line, code=match["code"], message=match["text"])
