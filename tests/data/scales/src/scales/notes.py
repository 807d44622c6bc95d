"""Single notes, named from C to B."""

import math
import re
from functools import lru_cache, reduce

NAMES = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"]
_FLATS = {"Db": "C#", "Eb": "D#", "Gb": "F#", "Ab": "G#", "Bb": "A#"}
_OCTAVE = re.compile(r"([A-G][#b]?)(-?\d+)")


class NoteError(ValueError):
    """No such note."""


@lru_cache(maxsize=None)
def index(name):
    """The position of a note in the octave, 0 for C.

    Raises NoteError for anything that is not a note.
    """
    name = _FLATS.get(name, name)
    if name not in NAMES:
        raise NoteError(f"no such note: {name!r}")
    return NAMES.index(name)


def transpose(name, semitones):
    """Move a note by semitones, up or down.

    >>> transpose("C", 7)
    'G'
    """
    position = index(name) + semitones
    octave = len(NAMES)
    return NAMES[position % octave]


def interval(low, high, *, steps=False):
    """Semitones from one note up to the next occurrence of another."""
    distance = (index(high) - index(low)) % len(NAMES)
    if steps:
        return distance / 2
    return distance


# Only frequency() needs this.
def _split(text):
    found = _OCTAVE.fullmatch(text)
    if found is None:
        raise NoteError(f"not a note with an octave: {text!r}")
    return found.group(1), int(found.group(2))


def frequency(text, *, concert_pitch=440.0):
    """The frequency in hertz of a note with its octave, such as A4.

    Examples
    --------
    >>> frequency("A4")
    440.0
    """
    name, octave = _split(text)
    distance = index(name) - index("A") + 12 * (octave - 4)
    if concert_pitch <= 0:
        raise ValueError("concert_pitch must be positive")
    return concert_pitch * math.pow(2, distance / 12)


def chord(root, *distances):
    return reduce(lambda notes, step: [*notes, transpose(root, step)], distances, [root])
