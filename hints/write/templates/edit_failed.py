"""Why the text to replace was not found, or found too often, and how to name the place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour import log
from ...transcript.past_turns import PastCall, PastTurn
from .kit import call_of, calls_before, quote
from .kit import hint as made

_OLD = ("old", "old_str", "old_string", "old_text", "search", "find", "target", "before")
_NUMBERED = re.compile(r"^\s*\d+(?:\t|\s*[|:→]\s?)")
_MANY = re.compile(
    r"\b(?:occurs|appears|found|matches?|occurrences?)\b.*?\b(\d{1,9})|\b(\d{1,9})\b.*?\b(?:occurrences|matches|times)",
    re.I,
)
_PLACES = re.compile(r"\(?lines? ([\d, ]+)\)?")
_NEAREST = re.compile(r"nearest line is (\d+): (.+)$")
_COMPARED, _CHARACTERS = 5_000, 200


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """Absent, ambiguous or empty; the nearest line comes from the status line or from what was read before."""
    if error.kind != "edit_failed":
        return None
    call = call_of(error, turns)
    old, path = _old(call), (log.path_of(call) if call is not None else "") or "the file"
    said = error.message
    if "are the same" in said:
        return made("edit_failed", "Old and new text are the same: write in the new text what is to become different.")
    if "is empty" in said:
        return made(
            "edit_failed", f"Copy the text to replace in {quote(path, 100)} word for word; to make a file, write it."
        )
    many = _MANY.search(said)
    if many and int(many[1] or many[2]) > 1:
        return _ambiguous(said, path, old, many[1] or many[2])
    return _absent(said, path, old, calls_before(error, turns))


def _old(call: PastCall | None) -> str:
    return next((v for name in _OLD if call is not None and isinstance(v := call.arguments.get(name), str)), "")


def _ambiguous(said: str, path: str, old: str, count: str) -> Hint:
    places = _PLACES.search(said)
    lines = f" (lines {places[1].strip(', ')})" if places else ""
    first = next((line for line in old.splitlines() if line.strip()), "")
    what = quote(first, 50) if first else "the text"
    return made(
        "edit_failed",
        f"{what} occurs {count} times in {quote(path, 100)}{lines}: add the line before or after it, "
        "so that the text to replace occurs once.",
    )


def _absent(said: str, path: str, old: str, earlier: Sequence[PastCall]) -> Hint:
    """Line numbers copied with the text, other line ends, or simply another text."""
    where, nearest = quote(path, 100), _nearest(said, path, old, earlier)
    advice = [f"Read {where} again and copy the text to replace exactly, with its indentation."]
    if old and all(_NUMBERED.match(line) for line in old.splitlines() if line.strip()):
        advice = [f"Leave out the line numbers that were shown with {where}: they are not in the file."]
    elif "CR LF" in said:
        advice = [f"The lines of {where} end in CR LF: write \\r\\n in the text to replace."]
    elif _written_since_read(path, earlier):
        advice = [f"{where} was changed after you read it.", *advice]
    if not any(log.norm(path) == shown for call in earlier for shown, _, _ in log.shown(call)):
        advice = [f"Read {where} before you edit it, and copy the text to replace exactly."]
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    start = f"{quote(first, 60)} is not in {where}." if first else f"The text to replace is not in {where}."
    return made("edit_failed", start, *([nearest] if nearest else []), *advice)


def _nearest(said: str, path: str, old: str, earlier: Sequence[PastCall]) -> str:
    """The line that comes closest to the first line of the text."""
    told = _NEAREST.search(said)
    if told:
        return f"The nearest line is {told[1]}: {quote(told[2].strip(chr(39) + chr(34)), 90)}."
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    read = [call for call in earlier if any(log.norm(path) == shown for shown, _, _ in log.shown(call))]
    if not first or not read:
        return ""
    lines = [_NUMBERED.sub("", line).strip()[:_CHARACTERS] for line in read[-1].body.splitlines()[:_COMPARED]]
    near = difflib.get_close_matches(_NUMBERED.sub("", first)[:_CHARACTERS], [line for line in lines if line], n=1)
    return f"The nearest line is {quote(near[0], 90)}." if near else ""


def _written_since_read(path: str, earlier: Sequence[PastCall]) -> bool:
    written = False
    for call in earlier:
        if any(log.norm(path) == shown for shown, _, _ in log.shown(call)):
            written = False
        elif log.writes_by_name(call) and log.norm(log.path_of(call)) == log.norm(path):
            written = True
    return written
