"""Files of a training run's folder: their names, and their contents, validated."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import TrainingRunError

METRICS = "metrics.jsonl"
"""One line of metrics for each step."""
RECIPE = "recipe.json"
"""The resolved recipe."""
RESULT = "result.json"
"""The result, once the run has ended or was interrupted."""
BEFORE = "before.json"
"""The evaluation before training; null without held-out tasks."""
EPISODES = "episodes.jsonl"
"""Some episodes of each batch, a line each, as `etude run` writes them."""
STOPPED = "stopped.json"
"""Why the kill switch stopped the run."""

_MAX_COUNT, _MAX_VALUE = 2**31, 1e100
"""Limits of a step number and of a metric: no step measures as much."""


class _Table(BaseModel):
    model_config = ConfigDict(strict=True)


class _Train(_Table):
    steps: int = Field(ge=1, lt=_MAX_COUNT)
    prompts: int = Field(ge=1, lt=_MAX_COUNT)
    group: int = Field(ge=1, lt=_MAX_COUNT)
    micro: int = Field(ge=1, lt=_MAX_COUNT)


class _Weight(_Table):
    start: float
    end: float


class _Recipe(_Table):
    """Keys of a resolved recipe that the report reads, of any version; the tables below are of other files."""

    stage: str
    train: _Train
    channels: dict[str, _Weight]
    safety: dict[str, float]


class _Evaluation(_Table):
    episodes: int
    valid: int = Field(ge=0)
    solved: float = Field(ge=0, le=1)
    error_turn_rate: float
    reward: float


class _Result(_Table):
    steps: int
    stopped: str
    interrupted: bool
    warnings: list[str]
    after: _Evaluation | None


_RESTORE = "restore what `etude train` wrote there, or choose another folder"
_REMOVE = "remove the file"


@dataclass(frozen=True)
class Run:
    """Training run as its folder holds it."""

    name: str
    """Path of the folder."""
    recipe: dict[str, Any]
    """The resolved recipe."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Metrics, one row for each step."""
    result: dict[str, Any] | None = None
    """The result, once the run has ended or was interrupted."""
    before: dict[str, Any] | None = None
    """The evaluation before training, once it was made."""

    @property
    def step(self) -> int:
        """Return the last step with metrics."""
        return int(self.rows[-1]["step"]) if self.rows else 0

    @property
    def ended(self) -> dict[str, Any] | None:
        """Return the result, or None if the run has resumed since."""
        return self.result if self.result is not None and self.result["steps"] >= self.step else None


def is_run(folder: Path) -> bool:
    """Return whether ``etude train`` wrote to this folder."""
    return (folder / RECIPE).is_file() or (folder / METRICS).is_file()


def read_run(folder: Path) -> Run:
    """Return the run in a folder. Raise TrainingRunError if there is none, or if a file is damaged."""
    if not is_run(folder):
        raise TrainingRunError(f"{folder} holds no training run; `etude train` makes one")
    recipe, rows = _read_json(folder / RECIPE, _Recipe, _RESTORE), read_metrics(folder / METRICS)
    if recipe is None:
        raise TrainingRunError(f"{folder} has {METRICS}, but no {RECIPE}; {_RESTORE}")
    result = _read_json(folder / RESULT, _Result, _REMOVE)
    before = _read_json(folder / BEFORE, _Evaluation, _REMOVE)
    if result is not None and result["steps"] > 0 and not rows:
        raise TrainingRunError(f"{folder / METRICS} has no line, but the run made {result['steps']} steps; {_RESTORE}")
    return Run(str(folder), recipe, rows, result, before)


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that it is never seen incomplete; text that UTF-8 cannot hold gets question marks."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8", errors="replace")
    part.replace(path)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the rows of ``metrics.jsonl``, none without a file. An incomplete last line is left out.

    Raise TrainingRunError for any other line that is not a row of metrics.
    """
    *lines, last = path.read_bytes().split(b"\n") if path.exists() else [b""]
    rows = []
    for number, line in enumerate([*lines, last] if last else lines, start=1):
        try:
            row = json.loads(line)
        except ValueError:
            if number > len(lines):
                break
            raise TrainingRunError(f"{path}:{number} is not JSON; remove the line") from None
        if not isinstance(row, dict) or not all(_is_metric(value) for value in row.values()):
            raise TrainingRunError(f"{path}:{number} is not a table of numbers; remove the line")
        if not isinstance(row.get("step"), int) or not 0 <= row["step"] < _MAX_COUNT:
            raise TrainingRunError(f"{path}:{number} has no valid step; remove the line")
        rows.append(row)
    return rows


def _is_metric(value: Any) -> bool:
    """Return whether a value can be a metric: a number of usual size, or an infinite loss, or one that is NaN."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) < _MAX_VALUE or value in (math.inf, -math.inf) or value != value


def _read_json(path: Path, kind: type[BaseModel], remedy: str) -> dict[str, Any] | None:
    """Return a validated table, or None without a file. An evaluation may be null. Raise TrainingRunError."""
    if not path.exists():
        return None
    try:
        table: dict[str, Any] | None = json.loads(path.read_bytes())
        if table is not None or kind is not _Evaluation:
            kind.model_validate(table)
    except ValueError as error:
        raise TrainingRunError(f"{path} is damaged ({_one_line(error)}); {remedy}") from None
    return table


def _one_line(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    message = "not a table" if first["type"] == "model_type" else first["msg"]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), message]))
