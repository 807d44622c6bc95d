"""Settings from easy to hard: the knobs that most generators share, one step after the other.

A generator needs nothing for this: of each step it takes the knobs that it has. Knobs that the user sets stay as they
are set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import median_low
from typing import Any

from ...environments.tasks.static_features import TaskFeatures
from ...errors import GeneratorError
from ...models import DEFAULT_ENVIRONMENT
from ..knob_parsing import parse_knobs

EASIEST: dict[str, Any] = {
    "tests": "visible",
    "docs": "keep",
    "keep_helpers": True,
    "style": "issue",
    "observed": True,
    "topics": True,
    "mode": "stub",
}
"""Where the ladder of each generator starts, at its smallest size."""
STEPS: tuple[dict[str, Any], ...] = (
    {"tests": "half"},
    {"docs": "redact"},
    {"tests": "hidden"},
    {"keep_helpers": False},
    {"style": "instruction", "observed": False},
    {"size": 2},
    {"mode": "remove"},
    {"style": "terse", "topics": False},
    {"size": 4},
    {"size": 8},
)
"""What each step changes. ``size`` stands for the knobs of SIZES."""
LARGEST = max(step.get("size", 1) for step in STEPS)
SIZES = ("min_lines", "min_entities", "min_files", "mistakes")
"""Knobs that grow with the size: multiples of their defaults, but files one by one."""
COUNTS = ("files", "hunks", "tests", "entities", "closure", "fan_in", "words")
"""Features of which a typical task has the median."""
SPREAD = 4
"""Most lines of a task, as a multiple of the fewest, where a generator has both knobs; the last step has no limit."""


@dataclass(frozen=True)
class Setting:
    """One step of a generator's ladder."""

    generator: str
    """Name of the generator."""
    knobs: Mapping[str, Any]
    """All knobs that the ladder or the user sets."""
    step: int
    """Number of the step, from 0."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Features of its tasks that are texts."""

    def typical_features(self, played: Sequence[TaskFeatures]) -> TaskFeatures:
        """Return the features of a typical task, from those of the generator's played tasks and from the knobs."""
        numbers: dict[str, Any] = {name: _median(played, name) for name in COUNTS}
        numbers["lines"] = self._typical_lines(played)
        for name, least in (("files", "min_files"), ("entities", "min_entities")):
            numbers[name] = max(numbers[name], self.knobs.get(least, 0))
        numbers["level"] = self.knobs.get("level") or 0
        return TaskFeatures(
            environment=played[0].environment if played else DEFAULT_ENVIRONMENT,
            generator=self.generator,
            knobs=dict(self.knobs),
            labels=dict(self.labels),
            **numbers,
        )

    def _typical_lines(self, played: Sequence[TaskFeatures]) -> int:
        """Return how many lines a solution adds: as in the played tasks, in proportion to the knob ``min_lines``."""
        fewest = self.knobs.get("min_lines") or 0
        if not played:
            return max(2 * fewest, 1)
        before = median_low(task.knobs.get("min_lines") or 0 for task in played)
        lines = median_low(task.lines for task in played)
        return max(round(lines * fewest / before) if fewest and before else lines, 1)


def ladder(generator: str, kind: type[Any], fixed: Mapping[str, Any]) -> list[Setting]:
    """Return the settings of a generator with the knobs ``kind`` from easy to hard; ``fixed`` are those of the user.

    A step that changes nothing is left out, so a generator without shared knobs has one setting.
    """
    settings: list[Setting] = []
    knobs = dict(fixed) | _values(kind, fixed, EASIEST) | _values(kind, fixed, _size(kind, 1))
    for change in ({}, *STEPS):
        size = change.get("size")
        knobs = knobs | _values(kind, fixed, _size(kind, size) if size else change)
        if not settings or knobs != settings[-1].knobs:
            settings.append(Setting(generator, knobs, len(settings)))
    return settings


def _values(kind: type[Any], fixed: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a change that a generator can take."""
    names = {item.name for item in fields(kind)}
    return {name: value for name, value in change.items() if name in names - set(fixed) and _fits(kind, name, value)}


def _fits(kind: type[Any], name: str, value: Any) -> bool:
    try:
        parse_knobs(kind, {name: value})
    except GeneratorError:
        return False
    return True


def _size(kind: type[Any], times: int) -> dict[str, Any]:
    """Return the knobs of a size: ``times`` the default, with a limit on the lines below the largest size."""
    defaults: dict[str, Any] = {item.name: item.default for item in fields(kind)}
    change = {name: defaults[name] * times for name in SIZES if isinstance(defaults.get(name), int)}
    if "min_files" in change:
        change["min_files"] = defaults["min_files"] + times.bit_length() - 1
    if "mistakes" in change:
        change["mistakes"] = defaults["mistakes"] * min(times, 2)
    if "min_lines" in change and "max_lines" in defaults:
        largest = defaults["max_lines"]
        change["max_lines"] = largest if times == LARGEST else min(SPREAD * change["min_lines"], largest)
    return change


def _median(played: Sequence[TaskFeatures], name: str) -> int:
    return median_low(getattr(task, name) for task in played) if played else 0
