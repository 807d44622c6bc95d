"""What a training run has left in its folder, read."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import TrainingRunError

METRICS, RECIPE, RESULT, BEFORE, STOPPED = (
    "metrics.jsonl",
    "recipe.json",
    "result.json",
    "before.json",
    "stopped.json",
)


_MANY, _MOST = 2**31, 1e100
"""Steps, and values: no step measures as much."""


class _Table(BaseModel):
    model_config = ConfigDict(strict=True)


class _Train(_Table):
    steps: int = Field(ge=1, lt=_MANY)
    prompts: int = Field(ge=1, lt=_MANY)
    group: int = Field(ge=1, lt=_MANY)
    micro: int = Field(ge=1, lt=_MANY)


class _Weight(_Table):
    start: float
    end: float


class _Recipe(_Table):
    """What is read of a resolved recipe, of whatever version; so are those below of their files."""

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


_PUT_BACK = "put back what `etude train` wrote there, or choose another folder"


@dataclass(frozen=True)
class Run:
    """``result`` is there once the run has ended, or was interrupted; ``before`` once the base was evaluated."""

    name: str
    recipe: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] | None = None
    before: dict[str, Any] | None = None

    @property
    def step(self) -> int:
        """The last one that was written down."""
        return int(self.rows[-1]["step"]) if self.rows else 0

    @property
    def ended(self) -> dict[str, Any] | None:
        """The result, unless the run went on since."""
        return self.result if self.result is not None and self.result["steps"] >= self.step else None


def is_run(folder: Path) -> bool:
    """Whether ``etude train`` wrote there."""
    return (folder / RECIPE).is_file() or (folder / METRICS).is_file()


def read_run(folder: Path) -> Run:
    """Raises TrainingRunError."""
    if not is_run(folder):
        raise TrainingRunError(f"no training run in {folder}: `etude train` makes one")
    recipe, rows = _read(folder / RECIPE, _Recipe, _PUT_BACK), read_metrics(folder / METRICS)
    if recipe is None:
        raise TrainingRunError(f"{folder} has {METRICS}, but no {RECIPE}: {_PUT_BACK}")
    result, before = _read(folder / RESULT, _Result, "remove it"), _read(folder / BEFORE, _Evaluation, "remove it")
    if result is not None and result["steps"] > 0 and not rows:
        raise TrainingRunError(f"{folder / METRICS} has no line, but the run made {result['steps']} steps: {_PUT_BACK}")
    return Run(str(folder), recipe, rows, result, before)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``; none when there is no file. A torn last line is left out.

    Raises TrainingRunError for others.
    """
    *lines, torn = path.read_bytes().split(b"\n") if path.exists() else [b""]
    rows = []
    for number, line in enumerate([*lines, torn] if torn else lines, start=1):
        try:
            row = json.loads(line)
        except ValueError:
            if number > len(lines):
                break
            raise TrainingRunError(f"{path}:{number} is no JSON: remove the line") from None
        if not isinstance(row, dict) or not all(_is_number(value) for value in row.values()):
            raise TrainingRunError(f"{path}:{number} is no table of numbers: remove the line")
        if not isinstance(row.get("step"), int) or not 0 <= row["step"] < _MANY:
            raise TrainingRunError(f"{path}:{number} is of no step: remove the line")
        rows.append(row)
    return rows


def _is_number(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) < _MOST or value in (math.inf, -math.inf) or value != value  # a loss may be none


def _read(path: Path, kind: type[BaseModel], remedy: str) -> dict[str, Any] | None:
    """None where there is no file; a run without an evaluation has null in its place. Raises TrainingRunError."""
    if not path.exists():
        return None
    try:
        table: dict[str, Any] | None = json.loads(path.read_bytes())
        if table is not None or kind is not _Evaluation:
            kind.model_validate(table)
    except ValueError as error:
        raise TrainingRunError(f"{path} is damaged ({_what(error)}): {remedy}") from None
    return table


def _what(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    said = "no table" if first["type"] == "model_type" else first["msg"]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), said]))
