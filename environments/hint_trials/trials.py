"""Trials: the record of one continuation, and their file ``OUT/trials.jsonl``, one line per continuation as it ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import RunError
from ..runs.writer import Lines, check_settings, complete_lines

FILE_NAME = "trials.jsonl"


@dataclass(frozen=True)
class Trial:
    """One continuation of an episode from the error turn with the number ``error``.

    ``place`` names that error turn, ``number`` the continuation. ``arm`` is the hint that was given ('': none), drawn
    from ``arms`` with probability ``propensity``; ``context`` is what the draw could depend on. ``replayed``: the past
    was played again, since it could not be forked; ``diverged``: its results differed from those stored. A trial that
    is not ``valid`` is not counted.
    """

    place: str
    number: int
    episode_id: str
    task_id: str
    error: int
    kind: str
    site: str
    arm: str = ""
    arms: tuple[str, ...] = ()
    propensity: float = 1.0
    context: dict[str, str] = field(default_factory=dict)
    valid: bool = False
    success: bool = False
    value: float = 0.0
    end: str | None = None
    turns: int = 0
    cause: str = ""
    replayed: bool = False
    diverged: bool = False
    usage: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, int]:
        """Return the key of the trial in its file."""
        return self.place, "with" if self.arms else "without", self.number


class TrialLog(Lines):
    """File of trials; ``done`` are the valid ones. Opening it compares ``settings`` with those of earlier lines.

    Raises RunError for other settings and for a line that is not a trial.
    """

    def __init__(self, out: Path, settings: Mapping[str, Any]) -> None:
        super().__init__(out / FILE_NAME)
        self.settings = dict(settings)
        self.done: dict[tuple[str, str, int], Trial] = {}
        for number, line in enumerate(complete_lines(self.path), start=1):
            place = f"{self.path}:{number}"
            try:
                row = json.loads(line)
                settings_before = dict(row.pop("settings"))
                trial = Trial(**{**row, "arms": tuple(row["arms"])})
            except (ValueError, KeyError, TypeError, AttributeError):
                raise RunError(f"{place} is not a trial; remove the line, or choose another --out") from None
            check_settings(place, settings_before, self.settings)
            if trial.valid:
                self.done[trial.key] = trial

    def add(self, trial: Trial) -> None:
        """Write one trial."""
        self.write({**asdict(trial), "settings": self.settings})
