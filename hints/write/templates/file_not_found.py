"""The nearest paths that exist."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour import log
from ...transcript.past_turns import PastTurn
from .kit import call_of, calls_before, quote
from .kit import hint as made
from .paths import below, known_paths, nearest_paths

_MISSING = re.compile(
    r"(?:no such file(?: or (?:folder|directory))?: '?(?P<a>[^'\n]+?)'?$)"
    r"|(?:(?:cannot (?:access|open|stat|find)|can't open file) '(?P<b>[^'\n]+)')"
    r"|(?:(?P<c>[^\s:'\"]+): No such file or directory)"
    r"|(?:file or directory not found: (?P<d>\S+))",
    re.IGNORECASE | re.MULTILINE,
)


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """Among ``files`` and the paths shown before; a second hint for a command that failed for want of a file."""
    if error.injected:
        return None  # the path may well be right
    call = call_of(error, turns)
    printed = _named(call.body[-4000:]) if call is not None else ""
    if error.kind != "file_not_found" and not (error.kind == "nonzero_exit" and printed):
        return None
    path = (log.path_of(call) if call is not None else "") or _named(error.message) or printed
    known = known_paths(calls_before(error, turns), files)
    if " is a folder" in error.message:
        inside = below(path, known)
        holds = f"; it holds {', '.join(inside)}." if inside else "; list what is in it first."
        return made("file_not_found", f"{quote(path, 100)} is a folder, not a file{holds}")
    near = nearest_paths(path, known)
    while near and len(", ".join(near)) > 240:
        near.pop()
    start = f"There is no {quote(path, 100)}" if path else "That path does not exist"
    if near:
        return made(
            "file_not_found", f"{start}; the nearest {'path is' if len(near) == 1 else 'paths are'} {', '.join(near)}."
        )
    if error.kind != "file_not_found":
        return None
    return made("file_not_found", f"{start}.", "List the files or search for the name before you use a path.")


def _named(text: str) -> str:
    match = _MISSING.search(text)
    return next((group for group in match.groups() if group), "").strip() if match else ""
