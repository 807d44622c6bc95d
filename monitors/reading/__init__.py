"""Reading of transcripts, command lines, scripts and Python files. Nothing is executed.

Reading order: ``transcript`` (tool calls), ``shell`` and ``shell_expansion`` (the commands of a line),
``python_scripts`` and ``script_values`` (what a script reads, writes and starts), ``added_files`` and ``alignment``
(the lines that a change adds), ``module`` and ``constants`` (names and constants of a Python file), ``tables`` (tables
of constants in it).
"""

from __future__ import annotations

from .added_files import AddedFile, text_of_change
from .constants import fold
from .module import MAX_FILE, Function, Module, assignments, parsed

__all__ = [
    "MAX_FILE",
    "AddedFile",
    "Function",
    "Module",
    "assignments",
    "fold",
    "parsed",
    "text_of_change",
]
