"""Reader of the episodes that a run wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...errors import RunError
from ...models import Episode
from .writer import FILE_NAME, ROW_FIELDS

Progress = Callable[[str, int, int], None]
"""Reports a phase, the units done, and the total number of units (0: unknown)."""
REPORTED = 100
"""Episodes between two reports."""


def no_progress(phase: str, done: int, total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Stored:
    """One episode as it was recorded."""

    episode: Episode
    agent: str
    sample: int
    """The number of the episode among those of its task."""
    settings: dict[str, Any]
    """The settings of its run."""
    cause: str = ""
    """Why the episode is not valid; empty for a valid one."""
    usage: dict[str, Any] = field(default_factory=dict)
    """What the agent used of a model: calls, tokens and USD; empty for an agent that asks none."""

    @property
    def shown(self) -> bool | None:
        """Return whether the agent saw annotations; None for a run that does not record it."""
        annotate = self.settings.get("annotate")
        return None if annotate is None else annotate == "observation"

    @property
    def log(self) -> dict[str, Any] | None:
        """Return what is recorded of the log of another tool that the episode was read from; None for a played one."""
        log = self.settings.get("log")
        return log if isinstance(log, dict) else None

    @property
    def valid(self) -> bool:
        """Return whether the episode was scored."""
        return self.episode.reward is not None and self.episode.reward.valid

    @property
    def key(self) -> str:
        """Return the name of the episode in its run."""
        return f"{self.agent} {self.episode.task_id} {self.sample}"


def stored_episodes(run: Path, progress: Progress = no_progress) -> list[Stored]:
    """Return the valid episodes of a run; of an episode that was played several times, the last.

    Raises RunError, also for a run that was read from logs of other tools: its results have no status lines.
    """
    episodes = list(read_run(run, progress))
    if any(stored.log is not None for stored in episodes):
        raise RunError(f"{run} was read from logs of other tools; name a run that `etude run` played")
    by_key = {stored.key: stored for stored in episodes if stored.valid}
    if not by_key:
        raise RunError(f"{run} holds no valid episode; play some with `etude run --out {run}`")
    return list(by_key.values())


def read_run(run: Path, progress: Progress = no_progress) -> Iterator[Stored]:
    """Yield the episodes in a run's folder or file, without a last line that was cut off. Raises RunError.

    ``progress`` is called with a phase, the lines that are read and all lines, after each ``REPORTED`` lines.
    """
    file = run / FILE_NAME if run.is_dir() else run
    try:
        *lines, last = file.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror}; play some with `etude run --out {run}`") from None
    for number, line in enumerate([*lines, last] if _is_complete(last) else lines, start=1):
        if number % REPORTED == 0:
            progress(f"reading {run}", number, len(lines))
        if not line.strip():
            continue
        try:
            stored = stored_of(json.loads(line))
        except (ValueError, RecursionError):
            stored = None
        if stored is None:
            raise RunError(f"{file}:{number} is not an episode; remove the line, or play the run again")
        yield stored


def stored_of(row: Any) -> Stored | None:
    """Return the episode in a row of a run; None when the row is not one."""
    try:
        episode = Episode(**{name: value for name, value in row.items() if name not in ROW_FIELDS})
        settings, cause = dict(row.get("settings") or {}), str(row.get("cause", ""))
        about = (str(row.get("agent", "")), int(row.get("sample", 0)), settings, cause)
        return Stored(episode, *about, usage=dict(row.get("usage") or {}))
    except (ValueError, ValidationError, AttributeError, TypeError, RecursionError):
        return None


def _is_complete(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
