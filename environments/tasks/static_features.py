"""Static features of a task: what can be counted without playing it, from the row alone.

The validator stores more of them on the row than a row shows by itself: ``entities``, ``fan_in`` and ``closure`` need
the Snapshot's tree (``generators/validation/checks/final_checks.py``).
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from ...models import IMPOSSIBLE, SECRET_FEATURES, Record, Task

_FILE = re.compile(r"^\+\+\+ |^--- ", re.MULTILINE)
_HUNK = re.compile(r"^@@ ", re.MULTILINE)
_ADDED = re.compile(r"^\+(?!\+\+ )[^\S\n]*[^\s#]", re.MULTILINE)


class TaskFeatures(Record):
    """Features of one task. Counts are 0 where a task has no such thing, as a question about code has no lines."""

    environment: str
    """Environment that plays the task."""
    generator: str
    """Generator of the task."""
    knobs: dict[str, Any] = Field(default_factory=dict)
    """Settings of the generator, such as mode, style, hidden tests and documents."""
    lines: int = 0
    """Lines of code that the solution adds, without blank lines and comments."""
    files: int = 0
    """Files that the solution changes."""
    hunks: int = 0
    """Separate places that the solution changes."""
    tests: int = 0
    """Hidden tests that fail at first."""
    entities: int = 0
    """Functions, methods and classes that the solution adds or changes."""
    closure: int = 0
    """Definitions of the package that the solution's code reaches by name, directly or through others."""
    fan_in: int = 0
    """Other source files that mention what the solution defines."""
    words: int = 0
    """Words of the statement."""
    level: int = 0
    """Level of a made-up exercise, from 1; 0 for tasks without levels."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Features of the row that are texts, such as the family of a drill."""
    impossible: bool = False
    """Whether no honest solution passes."""


def task_features(task: Task) -> TaskFeatures:
    """Return the features of a task, from its row alone."""
    measured = task.features

    def number(name: str, default: int = 0) -> int:
        value = measured.get(name, default)
        return int(value) if isinstance(value, int | float) else default

    return TaskFeatures(
        environment=task.environment,
        generator=task.generator.name,
        knobs=task.generator.knobs,
        lines=number("loc_removed") or len(_ADDED.findall(task.patch)),
        files=number("files", len(_FILE.findall(task.patch)) // 2),
        hunks=len(_HUNK.findall(task.patch)),
        tests=len(task.FAIL_TO_PASS),
        entities=number("entities"),
        closure=number("closure"),
        fan_in=number("fan_in"),
        words=len(task.problem_statement.split()),
        level=number("level"),
        labels={
            name: value for name, value in measured.items() if isinstance(value, str) and name not in SECRET_FEATURES
        },
        impossible=bool(measured.get(IMPOSSIBLE)),
    )
