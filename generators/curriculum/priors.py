"""Features as numbers, and what is assumed about their weights before any task was played.

Every number is 0 for the same imagined task: a mistake in one line of one file, with a user's report, visible tests
and documents. The means of the weights are an assumption, in logits, not a measurement: larger, hidden and unexplained
tasks are harder. ``item_response.fit`` replaces them by what the plays show, as far as these show it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...environments.tasks.static_features import TaskFeatures

Vector = dict[str, float]
"""Numbers of a task by the name of the feature; one that is missing is 0."""


@dataclass(frozen=True)
class Prior:
    """Normal distribution of a weight, in logits per unit of its feature."""

    mean: float
    sd: float


PRIORS = {
    "all tasks": Prior(-1.5, 1.0),
    "lines, doublings": Prior(0.4, 0.2),
    "files, doublings": Prior(0.4, 0.3),
    "places, doublings": Prior(0.1, 0.2),
    "tests, doublings": Prior(0.1, 0.2),
    "entities, doublings": Prior(0.2, 0.2),
    "closure, doublings": Prior(0.1, 0.15),
    "fan-in, doublings": Prior(0.0, 0.1),
    "words, doublings": Prior(0.0, 0.2),
    "level": Prior(0.7, 0.5),
    "hidden tests": Prior(0.8, 0.5),
    "hidden documents": Prior(0.5, 0.4),
    "hidden helpers": Prior(0.3, 0.3),
    "removed names": Prior(0.6, 0.5),
    "terse statement": Prior(0.5, 0.4),
    "less reported": Prior(0.5, 0.4),
    "mistakes, doublings": Prior(0.4, 0.3),
}
"""Priors of the weights of numbers."""
GROUP_PRIOR = Prior(0.0, 1.0)
"""Prior of what all tasks of one generator have in common, or all with one label (such as a family of drills)."""
_TYPICAL_WORDS = 150


@dataclass(frozen=True)
class KnobScale:
    """A knob whose values are easier or harder, whatever the generator."""

    feature: str
    """Feature that it sets."""
    values: dict[Any, float]
    """Values from easy to hard, 0 to 1."""


KNOB_SCALES = {
    "tests": KnobScale("hidden tests", {"visible": 0.0, "half": 0.5, "hidden": 1.0}),
    "docs": KnobScale("hidden documents", {"keep": 0.0, "redact": 1.0}),
    "keep_helpers": KnobScale("hidden helpers", {True: 0.0, False: 1.0}),
    "style": KnobScale("terse statement", {"issue": 0.0, "instruction": 0.4, "seeded": 0.5, "terse": 1.0}),
    "mode": KnobScale("removed names", {"stub": 0.0, "remove": 1.0}),
    "observed": KnobScale("less reported", {True: 0.0, False: 1.0}),
    "topics": KnobScale("less reported", {True: 0.0, False: 1.0}),
}
"""Knobs that several generators share. ``seeded`` draws one of the styles, and counts as their mean."""


def prior_of(name: str) -> Prior:
    """Return the prior of a feature's weight."""
    return PRIORS.get(name, GROUP_PRIOR)


def vector(features: TaskFeatures) -> Vector:
    """Return the numbers of a task. Counts enter as doublings: from 10 to 20 lines is as far as from 100 to 200."""
    numbers = {
        "all tasks": 1.0,
        "lines, doublings": _doublings(features.lines),
        "files, doublings": _doublings(features.files),
        "places, doublings": _doublings(features.hunks),
        "tests, doublings": _doublings(features.tests),
        "entities, doublings": _doublings(features.entities),
        "closure, doublings": math.log2(1 + features.closure),
        "fan-in, doublings": math.log2(1 + features.fan_in),
        "words, doublings": math.log2((1 + features.words) / _TYPICAL_WORDS) if features.words else 0.0,
        "level": max(features.level - 1.0, 0.0),
        f"generator={features.generator}": 1.0,
        **{f"{name}={value}": 1.0 for name, value in features.labels.items()},
    }
    for knob, scale in KNOB_SCALES.items():
        value = features.knobs.get(knob)
        if isinstance(value, str | bool) and value in scale.values:
            numbers[scale.feature] = scale.values[value]
    if isinstance(mistakes := features.knobs.get("mistakes"), int):
        numbers["mistakes, doublings"] = _doublings(mistakes)
    return {name: number for name, number in numbers.items() if number}


def _doublings(count: int) -> float:
    return math.log2(max(count, 1))
