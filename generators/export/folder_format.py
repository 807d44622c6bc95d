"""Formats that are folders of files: their options, and how such a folder is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...environments.tasks.task_set import TaskSet
from ...errors import ExportError
from ...registry import did_you_mean
from ..output.publish import new_folder


@dataclass(frozen=True)
class Option:
    """An option of a format."""

    description: str
    """What it does, in one line."""
    default: str = ""
    """Its value when it is not set."""
    choices: tuple[str, ...] = ()
    """The values that it can have; an empty tuple allows any text."""


@dataclass(frozen=True)
class FolderFormat:
    """A format that is a folder of files."""

    write: Callable[[TaskSet, Path, Mapping[str, str]], int]
    """Write a set into a new folder, with a value for each option; return the number of tasks. Raises ExportError."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """The options that ``write`` takes."""


def write_folder(format_: FolderFormat, tasks: TaskSet, target: Path, options: Mapping[str, str]) -> int:
    """Write a set to ``target``, which appears complete or not at all; return the number of tasks.

    Raises ExportError, which names what is in the way, and OSError when the disk cannot be written.
    """
    values = {**{name: option.default for name, option in format_.options.items()}, **options}
    for name, value in values.items():
        if name not in format_.options:
            raise ExportError(did_you_mean("option", name, format_.options))
        choices = format_.options[name].choices
        if choices and value not in choices:
            raise ExportError(f"option {name} must be {' or '.join(map(repr, choices))}, got {value!r}")
    if target.exists():
        raise ExportError(f"{target} exists; remove it, or choose another --out")
    with new_folder(target) as folder:
        number = format_.write(tasks, folder, values)
        shutil.copymode(target.parent, folder)
    return number
