"""Place of a file at which a text that is not in it fits best, and the first line of the text that differs there."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

_TEXT_LINES, _FILE_LINES, _PLACES, _CHARACTERS = 1_000, 5_000, 100, 200
"""Limits of what is compared: lines of the text, lines and places of the file, characters of a line."""
_NEAR = 3
"""Lines that a text may lack or have too many before its other lines fit."""


@dataclass(frozen=True)
class LineDifference:
    """The first line of a text that differs from the file."""

    number: int
    """Its number in the text, from 1."""
    text_line: str
    place: int
    """The number of the file's line, from 1."""
    file_line: str | None
    """The file's line; ``None`` behind the end of the file."""


def first_difference(lines: Sequence[str], text: str) -> LineDifference | None:
    """Return the first line of ``text`` that differs from ``lines`` where they fit best; ``None`` when nothing fits.

    Lines fit when they are equal except for spaces at their ends. The first line of the text may begin inside a line of
    the file, and its last line may end there.
    """
    required = [line.removesuffix("\r") for line in text.split("\n")[:_TEXT_LINES]]
    start = _best_start(lines, required)
    if start is None:
        return _similar_line(lines, required)
    length = _fitting_lines(lines, required, start)
    if length == len(required):
        return None
    at = start + length
    return LineDifference(length + 1, required[length], at + 1, lines[at] if at < len(lines) else None)


def _best_start(lines: Sequence[str], required: Sequence[str]) -> int | None:
    """Return the index at which most lines fit, where rare lines count more; ``None`` when no line fits."""
    places: dict[str, list[int]] = defaultdict(list)
    fragments = {line.strip() for line in required} - {""}
    for index, line in enumerate(lines):
        if line.strip() in fragments and len(places[line.strip()]) < _PLACES:
            places[line.strip()].append(index)
    votes: dict[int, float] = defaultdict(float)
    for number, line in enumerate(required):
        for index in places.get(line.strip(), ()):
            if index >= number:
                votes[index - number] += 1 / len(places[line.strip()])
    if not votes:
        return None
    best = max(votes, key=lambda start: (votes[start], -start))
    near = [best, *(start for start in sorted(votes) if 0 < abs(start - best) <= _NEAR)]
    return max(near, key=lambda start: _fitting_lines(lines, required, start))


def _fitting_lines(lines: Sequence[str], required: Sequence[str], start: int) -> int:
    """Return how many lines of the text are the file's, from its first line on."""
    last = len(required) - 1
    for number, line in enumerate(required):
        if start + number >= len(lines):
            return len(required) if number == last and not line else number
        there = lines[start + number].removesuffix("\r")
        if number == 0 and number == last:
            fits = line in there
        elif number == 0:
            fits = there.endswith(line)
        else:
            fits = there.startswith(line) if number == last else there == line
        if not fits:
            return number
    return len(required)


def _similar_line(lines: Sequence[str], required: Sequence[str]) -> LineDifference | None:
    """Return the first line of the text and the line of the file that is spelled most like it."""
    number = next((number for number, line in enumerate(required) if line.strip()), None)
    if number is None:
        return None
    # Comparing takes time with the square of the length, so only the beginnings of lines are.
    stripped = [line.strip()[:_CHARACTERS] for line in lines[:_FILE_LINES]]
    near = difflib.get_close_matches(required[number].strip()[:_CHARACTERS], stripped, n=1, cutoff=0.6)
    if not near:
        return None
    at = stripped.index(near[0])
    return LineDifference(number + 1, required[number], at + 1, lines[at])
