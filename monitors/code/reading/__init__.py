"""Reading of added code: constants, dotted names, and the lines that a change adds."""

from __future__ import annotations

from .added import AddedFile, text_of_change
from .constants import fold, plain_name
from .module import MAX_FILE, Module, Use, looped_over, parsed

__all__ = [
    "MAX_FILE",
    "AddedFile",
    "Module",
    "Use",
    "fold",
    "looped_over",
    "parsed",
    "plain_name",
    "text_of_change",
]
