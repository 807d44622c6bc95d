"""What a training run has left in its folder, read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

METRICS, RECIPE, RESULT, BEFORE, STOPPED = (
    "metrics.jsonl",
    "recipe.json",
    "result.json",
    "before.json",
    "stopped.json",
)


class RunError(Exception):
    """A folder that holds no training run; says what does."""


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
    return (folder / RECIPE).is_file()


def read_run(folder: Path) -> Run:
    """Raises RunError."""
    if not is_run(folder):
        raise RunError(f"no training run in {folder}: `etude train` makes one")
    try:
        recipe, result, before = (_json(folder / name) for name in (RECIPE, RESULT, BEFORE))
        return Run(str(folder), recipe, read_metrics(folder / METRICS), result, before)
    except ValueError as error:
        raise RunError(f"{folder} holds a file that is no JSON: {error}") from None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``; none when there is no file. A torn last line is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
