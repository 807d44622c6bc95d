"""Hint for a path that does not exist."""

from __future__ import annotations

import re

from ....models import Hint
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote
from ..path_guesses import known_paths, nearest_paths, paths_below

_MISSING = re.compile(
    r"(?:no such file(?: or (?:folder|directory))?: '?(?P<a>[^'\n]+?)'?$)"
    r"|(?:(?:cannot (?:access|open|stat|find)|can't open file) '(?P<b>[^'\n]+)')"
    r"|(?:(?P<c>[^\s:'\"]+): No such file or directory)"
    r"|(?:file or directory not found: (?P<d>\S+))",
    re.IGNORECASE | re.MULTILINE,
)


def hint(context: ErrorContext) -> Hint | None:
    """Name the nearest paths that exist; also for a command that failed because a file is missing."""
    error = context.error
    printed = _named(context.call.body[-4000:]) if context.call is not None else ""
    if error.kind == "nonzero_exit" and not printed:
        return None
    path = context.path or _named(error.message) or printed
    known = known_paths(context.earlier_calls, context.files)
    if " is a folder" in error.message:
        inside = paths_below(path, known)
        content = f"; it holds {', '.join(inside)}." if inside else "; list what is in it first."
        return make_hint("file_not_found", f"{quote(path, 100)} is a folder, not a file{content}")
    near = nearest_paths(path, known)
    while near and len(", ".join(near)) > 240:
        near.pop()
    start = f"There is no {quote(path, 100)}" if path else "That path does not exist"
    if near:
        noun = "path is" if len(near) == 1 else "paths are"
        return make_hint("file_not_found", f"{start}; the nearest {noun} {', '.join(near)}.")
    if error.kind != "file_not_found":
        return None
    return make_hint("file_not_found", f"{start}.", "List the files or search for the name before you use a path.")


def _named(text: str) -> str:
    match = _MISSING.search(text)
    return next((group for group in match.groups() if group), "").strip() if match else ""
