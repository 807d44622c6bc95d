"""What a measurement of hints writes down: ``OUT/trials.jsonl``, one line per continuation as it ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from ...errors import RunError
from ..runs.writer import whole_lines

FILE_NAME = "trials.jsonl"


@dataclass(frozen=True)
class Trial:
    """One continuation of an episode from the site of its ``error``-th error turn.

    ``place`` names that error turn, ``number`` the continuation. ``arm`` is the hint that was said ('': none), drawn
    from ``arms`` with probability ``propensity``. ``replayed``: the past was played again, since there was no fork of
    it; ``diverged``: its results were others than those stored. A trial that is not ``valid`` counts for nothing.
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
        return self.place, "with" if self.arms else "without", self.number


class TrialLog:
    """``done`` are the valid trials. Opening it checks ``settings`` against those of earlier lines.

    Raises RunError for other settings, for a line that is no trial, and for a folder that cannot be written.
    """

    def __init__(self, out: Path, settings: Mapping[str, Any]) -> None:
        self.path = out / FILE_NAME
        self.settings = dict(settings)
        self.done: dict[tuple[str, str, int], Trial] = {}
        self._file: IO[str] | None = None
        for number, line in enumerate(whole_lines(self.path), start=1):
            trial, played_with = _read(line, f"{self.path}:{number}")
            for name in {**played_with, **self.settings}:
                was, now = played_with.get(name), self.settings.get(name)
                if was != now:
                    raise RunError(
                        f"{self.path}:{number} was played with {name} {was}, not {now}: "
                        "give the same, or choose another --out"
                    )
            if trial.valid:
                self.done[trial.key] = trial

    def __enter__(self) -> TrialLog:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise RunError(f"cannot write to {self.path}: {error.strerror}; choose another --out") from error
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, trial: Trial) -> None:
        assert self._file is not None
        self._file.write(json.dumps({**asdict(trial), "settings": self.settings}, ensure_ascii=False) + "\n")
        self._file.flush()


def _read(line: bytes, place: str) -> tuple[Trial, dict[str, Any]]:
    try:
        row = json.loads(line)
        settings = dict(row.pop("settings"))
        trial = Trial(**{**row, "arms": tuple(row["arms"])})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(f"{place} is no trial: remove the line, or choose another --out") from None
    return trial, settings
