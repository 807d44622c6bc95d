"""The episodes of a run, read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...errors import RunError
from ...models import Episode
from .writer import FILE_NAME, ROW_FIELDS


@dataclass(frozen=True)
class Stored:
    """One episode as it was written down. ``shown``: whether its agent saw annotations (``None``: not told)."""

    episode: Episode
    agent: str
    sample: int
    settings: dict[str, Any]

    @property
    def shown(self) -> bool | None:
        how = self.settings.get("annotate")
        return None if how is None else how == "observation"

    @property
    def valid(self) -> bool:
        return self.episode.reward is not None and self.episode.reward.valid

    @property
    def key(self) -> str:
        """What names it in its run."""
        return f"{self.agent} {self.episode.task_id} {self.sample}"


def stored_episodes(run: Path) -> list[Stored]:
    """The valid episodes of a run, of those that were played again the last. Raises RunError."""
    found: dict[str, Stored] = {}
    for one in read_run(run):
        if one.valid:
            found[one.key] = one
    if not found:
        raise RunError(f"{run} holds no valid episode: play some with `etude run --out {run}`")
    return list(found.values())


def read_run(run: Path) -> Iterator[Stored]:
    """The episodes of a run's folder, or of its file, less a last line that was cut off. Raises RunError."""
    file = run / FILE_NAME if run.is_dir() else run
    try:
        *lines, torn = file.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror}; play some with `etude run --out {run}`") from None
    for number, line in enumerate([*lines, torn] if _whole(torn) else lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            episode = Episode(**{name: value for name, value in row.items() if name not in ROW_FIELDS})
            settings = dict(row.get("settings") or {})
            yield Stored(episode, str(row.get("agent", "")), int(row.get("sample", 0)), settings)
        except (ValueError, ValidationError, AttributeError, TypeError):
            raise RunError(f"{file}:{number} is no episode: remove the line, or play the run again") from None


def _whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
