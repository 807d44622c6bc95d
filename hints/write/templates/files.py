"""Hints for files: a path that does not exist, and an edit that could not be applied."""

from __future__ import annotations

import ast
import difflib
import re

from ....models import Hint
from ...transcript.call_effects import path_of, shows_file, workspace_path, writes_by_name
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
_OLD = ("old", "old_str", "old_string", "old_text", "search", "find", "target", "before")
_NUMBERED = re.compile(r"^\s*\d+(?:\t|\s*[|:→]\s?)")
_MANY = re.compile(
    r"\b(?:occurs|appears|found|matches?|occurrences?)\b.*?\b(\d{1,9})|\b(\d{1,9})\b.*?\b(?:occurrences|matches|times)",
    re.I,
)
_PLACES = re.compile(r"\(?lines? ([\d, ]+)\)?")
_STATED_LINE = re.compile(r"nearest line is (\d+): (.+)$")
_COMPARED, _CHARACTERS = 5_000, 200


def file_not_found(context: ErrorContext) -> Hint | None:
    """Name the nearest paths that exist; also for a command that failed because a file is missing."""
    error = context.error
    printed = _missing_path(context.call.body[-4000:]) if context.call is not None else ""
    if error.kind == "nonzero_exit" and not printed:
        return None
    path = context.path or _missing_path(error.message) or printed
    candidates = known_paths(context.earlier_calls, context.files)
    if " is a folder" in error.message:
        inside = paths_below(path, candidates)
        content = f"; it holds {', '.join(inside)}." if inside else "; list what is in it first."
        return make_hint("file_not_found", f"{quote(path, 100)} is a folder, not a file{content}")
    near = nearest_paths(path, candidates)
    while near and len(", ".join(near)) > 240:
        near.pop()
    start = f"There is no {quote(path, 100)}" if path else "That path does not exist"
    if near:
        noun = "path is" if len(near) == 1 else "paths are"
        return make_hint("file_not_found", f"{start}; the nearest {noun} {', '.join(near)}.")
    if error.kind != "file_not_found":
        return None
    return make_hint("file_not_found", f"{start}.", "List the files or search for the name before you use a path.")


def _missing_path(text: str) -> str:
    match = _MISSING.search(text)
    return next((group for group in match.groups() if group), "").strip() if match else ""


def edit_failed(context: ErrorContext) -> Hint | None:
    """Say why the text to replace was not found, or found too often, and how to name the place."""
    message, path = context.error.message, context.path or "the file"
    if "are the same" in message:
        return make_hint("edit_failed", "Old and new text are the same: write in the new text what must be different.")
    if "is empty" in message:
        text = f"Copy the text to replace in {quote(path, 100)} word for word; to make a file, write it."
        return make_hint("edit_failed", text)
    many = _MANY.search(message)
    if many and int(many[1] or many[2]) > 1:
        return _ambiguous(context, path, many[1] or many[2])
    return _absent(context, path)


def _old_lines(context: ErrorContext) -> list[str]:
    """Return the lines of the text to replace."""
    arguments = context.call.arguments if context.call is not None else {}
    return next((value.splitlines() for name in _OLD if isinstance(value := arguments.get(name), str)), [])


def _ambiguous(context: ErrorContext, path: str, count: str) -> Hint:
    places = _PLACES.search(context.error.message)
    lines = f" (lines {places[1].strip(', ')})" if places else ""
    first = next((line for line in _old_lines(context) if line.strip()), "")
    what = quote(first, 50) if first else "the text"
    return make_hint(
        "edit_failed",
        f"{what} occurs {count} times in {quote(path, 100)}{lines}: add the line before or after it, "
        "so that the text to replace occurs once.",
    )


def _absent(context: ErrorContext, path: str) -> Hint:
    """Return the hint for a text that is not in the file: line numbers, indentation, line ends, or another text."""
    old, where = _old_lines(context), quote(path, 100)
    first = next((line.strip() for line in old if line.strip()), "")
    start = f"{quote(first, 60)} is not in {where}." if first else f"The text to replace is not in {where}."
    if old and all(_NUMBERED.match(line) for line in old if line.strip()):
        advice = f"Leave out the line numbers that were shown with {where}: they are not in the file."
        return make_hint("edit_failed", start, _nearest_line(context, path, old), advice)
    if "CR LF" in context.error.message:
        advice = f"The lines of {where} end in CR LF: write \\r\\n in the text to replace."
        return make_hint("edit_failed", start, advice)
    indentation = _indentation(context, path, old)
    if indentation:
        return make_hint("edit_failed", f"The text is in {where}, but indented differently.", indentation)
    advice = f"Read {where} again and copy the text to replace exactly, with its indentation."
    changed = f"{where} was changed after you read it." if _written_since_read(context, path) else ""
    if not any(shows_file(call, path) for call in context.earlier_calls):
        changed, advice = "", f"Read {where} before you edit it, and copy the text to replace exactly."
    return make_hint("edit_failed", start, _nearest_line(context, path, old), changed, advice)


def _nearest_line(context: ErrorContext, path: str, old: list[str]) -> str:
    """Return a sentence with the line that comes closest to the first line of the text."""
    stated = _stated_line(context)
    if stated is not None:
        return f"The nearest line is {stated[0]}: {quote(stated[1], 90)}."
    first = next((line.strip() for line in old if line.strip()), "")
    lines = [line.strip()[:_CHARACTERS] for line in _lines_read(context, path)]
    candidates = [line for line in lines if line]
    near = difflib.get_close_matches(_NUMBERED.sub("", first)[:_CHARACTERS], candidates, n=1) if first else []
    return f"The nearest line is {quote(near[0], 90)}." if near else ""


def _indentation(context: ErrorContext, path: str, old: list[str]) -> str:
    """Return how the indentation differs, when that is all that differs; '' otherwise."""
    old = _without_blank_ends(old)
    lines = _lines_read(context, path)
    stripped = [line.strip() for line in old]
    for start in range(len(lines) - len(old) + 1 if old else 0):
        here = lines[start : start + len(old)]
        if [line.strip() for line in here] == stripped:
            pairs = zip(here, old, strict=True)
            wrong = next((pair for pair in pairs if pair[0].strip() and _lead(pair[0]) != _lead(pair[1])), None)
            if wrong is not None:
                return _compared(*wrong)
    stated = _stated_line(context)
    if stated is not None and old and stated[1].strip() == old[0].strip() and _lead(stated[1]) != _lead(old[0]):
        return _compared(stated[1], old[0])
    return ""


def _compared(in_file: str, in_text: str) -> str:
    start = f"{quote(in_file.strip(), 60)} begins with {_indentation_name(_lead(in_file))} in the file"
    return f"{start} and with {_indentation_name(_lead(in_text))} in your text: copy the indentation of every line."


def _lead(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _indentation_name(indentation: str) -> str:
    """Return an indentation in words, such as ``8 spaces``."""
    counts = [(indentation.count(character), name) for character, name in (("\t", "tab"), (" ", "space"))]
    return " and ".join(f"{count} {name}{'s' * (count > 1)}" for count, name in counts if count) or "no indentation"


def _without_blank_ends(lines: list[str]) -> list[str]:
    full = [number for number, line in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []


def _stated_line(context: ErrorContext) -> tuple[str, str] | None:
    """Return number and text of the nearest line that the status line names, with its indentation."""
    stated = _STATED_LINE.search(context.error.message)
    if stated is None:
        return None
    try:
        line = ast.literal_eval(stated[2])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        line = stated[2]
    return stated[1], line if isinstance(line, str) else stated[2]


def _lines_read(context: ErrorContext, path: str) -> list[str]:
    """Return the lines of the file as the last call that showed it printed them, without line numbers."""
    read = [call for call in context.earlier_calls if shows_file(call, path)]
    lines = read[-1].body.splitlines()[:_COMPARED] if read else []
    is_numbered = bool(lines) and all(_NUMBERED.match(line) for line in lines[:20] if line.strip())
    return [_NUMBERED.sub("", line, count=1) for line in lines] if is_numbered else lines


def _written_since_read(context: ErrorContext, path: str) -> bool:
    """Return whether a call wrote to the file after the last call that showed it."""
    written = False
    for call in context.earlier_calls:
        if shows_file(call, path):
            written = False
        elif writes_by_name(call) and workspace_path(path_of(call)) == workspace_path(path):
            written = True
    return written
