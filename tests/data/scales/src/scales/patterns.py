"""Scales as patterns of semitones."""

from .notes import transpose

PATTERNS = {
    "major": [2, 2, 1, 2, 2, 2, 1],
    "minor": [2, 1, 2, 2, 1, 2, 2],
}


def scale(root, pattern="major"):
    """The seven notes of a scale, the root first."""
    if pattern not in PATTERNS:
        raise KeyError(pattern)
    notes = [root]
    for step in PATTERNS[pattern][:-1]:
        notes.append(transpose(notes[-1], step))
    return notes


def relative(root, pattern="major"):
    """The root of the relative scale: minor for major, and back."""
    if pattern == "major":
        shift = 9
    elif pattern == "minor":
        shift = 3
    else:
        raise KeyError(pattern)
    return transpose(root, shift)
