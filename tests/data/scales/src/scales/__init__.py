"""Notes, intervals and scales."""

from .notes import NoteError, frequency, interval, transpose
from .patterns import scale

__all__ = ["NoteError", "frequency", "interval", "scale", "transpose"]
