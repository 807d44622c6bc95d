"""Hints for files: a path that does not exist, and an edit that could not be applied."""

from __future__ import annotations

import ast
import re

from ....models import Hint
from ...transcript.call_effects import path_of, shows_file, workspace_path, writes_by_name
from ...transcript.text_match import LineDifference, first_difference
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote, quote_verbatim
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
_LITERAL = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_STATED_LINE = re.compile(rf"nearest line is (\d+): (?:({_LITERAL})(?:; line (\d+) of old\b.*)?|(.+))$")
_COMPARED = 5_000


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
    is_one_line = len(_without_blank_ends(old)) == 1
    start = f"{quote(first, 60)} is not in {where}." if is_one_line else f"The text to replace is not in {where}."
    if first and all(_NUMBERED.match(line) for line in old if line.strip()):
        advice = f"Leave out the line numbers that were shown with {where}: they are not in the file."
        begins = f"The text then begins with {quote_verbatim(_NUMBERED.sub('', _without_blank_ends(old)[0]))}."
        return make_hint("edit_failed", start, advice, begins)
    if "CR LF" in context.error.message:
        advice = f"The lines of {where} end in CR LF: write \\r\\n in the text to replace."
        return make_hint("edit_failed", start, advice)
    indentation = _indentation(context, path, old)
    if indentation:
        return make_hint("edit_failed", indentation)
    advice = f"Read {where} again and copy the text to replace exactly, with its indentation."
    changed = f"{where} was changed after you read it." if _written_since_read(context, path) else ""
    if not any(shows_file(call, path) for call in context.earlier_calls):
        changed, advice = "", f"Read {where} before you edit it, and copy the text to replace exactly."
    return make_hint("edit_failed", start, _nearest_line(context, path, old), changed, advice)


def _nearest_line(context: ErrorContext, path: str, old: list[str]) -> str:
    """Return a sentence with the first line of the text that differs from the file, and the file's line."""
    different = _difference(context, path, old)
    if different is None or different.file_line is None:
        return ""
    place = f"{different.place}: " if _STATED_LINE.search(context.error.message) else ""
    near = f"The nearest line is {place}{quote_verbatim(different.file_line)}."
    if len(_without_blank_ends(old)) < 2:
        return near
    return f"Line {different.number} of your text differs: it is {quote_verbatim(different.text_line)}. {near}"


def _difference(context: ErrorContext, path: str, old: list[str]) -> LineDifference | None:
    """Return the first line that differs: as the status line states it, else by what the agent has read."""
    stated = _stated_line(context)
    if stated is None:
        return first_difference(_lines_read(context, path), "\n".join(old))
    place, line, number = stated
    same = [other for other in _lines_read(context, path) if other.split() == line.split()]
    if line[:1] == " " != line[:2] and len(same) == 1:  # older environments wrote any indentation as one space
        line = same[0]
    if number is None:
        number = next((number for number, other in enumerate(old, 1) if other.strip()), 1)
    return LineDifference(number, old[number - 1], place, line) if number <= len(old) else None


def _indentation(context: ErrorContext, path: str, old: list[str]) -> str:
    """Return how the indentation of the first line that differs differs, when that is all; '' otherwise."""
    different = _difference(context, path, old)
    if different is None or different.file_line is None:
        return ""
    text_line, file_line = different.text_line, different.file_line
    if text_line.strip() != file_line.strip() or _lead(text_line) == _lead(file_line):
        return ""
    start = f"Line {different.number} of your text is indented differently in {quote(path, 100)}:"
    place = f"{quote(file_line.strip(), 60)} begins with {_indentation_name(_lead(file_line))} in the file"
    yours = f"and with {_indentation_name(_lead(text_line))} in your text. Copy the indentation of every line."
    return f"{start} {place} {yours}"


def _lead(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _indentation_name(indentation: str) -> str:
    """Return an indentation in words, such as ``8 spaces``."""
    counts = [(indentation.count(character), name) for character, name in (("\t", "tab"), (" ", "space"))]
    return " and ".join(f"{count} {name}{'s' * (count > 1)}" for count, name in counts if count) or "no indentation"


def _without_blank_ends(lines: list[str]) -> list[str]:
    full = [number for number, line in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []


def _stated_line(context: ErrorContext) -> tuple[int, str, int | None] | None:
    """Return what the status line states: number and text of the nearest line, and the line of the text, if named."""
    stated = _STATED_LINE.search(context.error.message)
    if stated is None:
        return None
    line = stated[2] or stated[4]
    try:
        value = ast.literal_eval(line)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = line
    return int(stated[1][:9]), value if isinstance(value, str) else line, int(stated[3][:9]) if stated[3] else None


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
