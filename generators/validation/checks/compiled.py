"""Compiled code that defines what a task asks for: importing it from there would be a solution."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from .exercise import Piece

_SUFFIXES = (".so", ".pyd", ".dll", ".dylib")
_SHORTEST = 5
"""Fewest characters of a name that is looked for: short ones occur in any machine code."""


def compiled_copy(tree: Path, pieces: Iterable[Piece]) -> str:
    """Return which extension module of a tree names one of the pieces as a whole text, '' for none.

    A private name counts without its underscores too. Raises OSError for a file that cannot be read.
    """
    names = {piece.short for piece in pieces if not piece.short.startswith("__")}
    names = {name for name in {*names, *(name.strip("_") for name in names)} if len(name) >= _SHORTEST}
    if not names:
        return ""
    pattern = re.compile(
        b"(?<![A-Za-z0-9_])_*(" + b"|".join(re.escape(name.encode()) for name in sorted(names)) + b")\\0"
    )
    for folder, _, files in os.walk(tree):
        for name in sorted(files):
            path = Path(folder, name)
            if name.endswith(_SUFFIXES) and not path.is_symlink() and (match := pattern.search(path.read_bytes())):
                return f"{path.relative_to(tree)} holds a compiled {match[1].decode()}"
    return ""
