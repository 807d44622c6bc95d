"""Runs on disk as the viewer reads them: rows of their episodes, also of those that are written while it is open."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...environments.runs.played_tasks import read_played_tasks
from ...environments.runs.reader import REPORTED, Progress, Stored, no_progress, stored_of
from ...environments.runs.writer import FILE_NAME
from ...environments.tasks.static_features import TaskFeatures
from ...errors import RunError
from .rows import Origin, row_of


@dataclass
class RunFolder:
    """One run: where each episode's line begins in its file, so that an episode is read when it is opened."""

    number: int
    path: Path
    places: list[tuple[int, int]] = field(default_factory=list)
    """Offset and length of each episode's line."""
    damaged: list[int] = field(default_factory=list)
    """Numbers of the lines that hold no episode, from 1; they are left out."""
    _lines: int = 0
    _end: int = 0
    _features: dict[str, TaskFeatures] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """Return the file of the episodes."""
        return self.path / FILE_NAME if self.path.is_dir() or not self.path.exists() else self.path

    @property
    def problem(self) -> str:
        """Return which lines are left out; empty when every line is an episode."""
        if not self.damaged:
            return ""
        first, more = self.damaged[0], len(self.damaged) - 1
        if not more:
            return f"{self.file}: line {first} is not an episode and is not shown; remove it, or play the run again"
        what = f"line {first} and {more} more are not episodes and are not shown"
        return f"{self.file}: {what}; remove them, or play the run again"

    def new_rows(self, progress: Progress = no_progress) -> Iterator[dict[str, Any]]:
        """Yield the rows of complete lines that were added since the last call. Raises RunError.

        A damaged line hides no other: it is noted in ``damaged``.
        """
        if not self.file.is_file():
            return
        if self.file.stat().st_size < self._end:
            raise RunError(f"{self.file} became shorter while it was shown; start `etude view` again")
        self._features = read_played_tasks(self.path) if self.path.is_dir() else {}
        with self.file.open("rb") as file:
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n") and _decoded(line) is None:
                    return  # it is being written
                start, self._end, self._lines = self._end, self._end + len(line), self._lines + 1
                if not line.strip():
                    continue
                stored = stored_of(_decoded(line))
                if stored is None:
                    self.damaged.append(self._lines)
                    continue
                origin = Origin(self.number, len(self.places), self._features.get(stored.episode.task_id))
                self.places.append((start, len(line)))
                if len(self.places) % REPORTED == 0:
                    progress(f"reading {self.path}", len(self.places), 0)
                yield row_of(stored, origin)

    def episode(self, number: int) -> Stored | None:
        """Return an episode by its number; None when there is none."""
        if not 0 <= number < len(self.places):
            return None
        start, length = self.places[number]
        with self.file.open("rb") as file:
            file.seek(start)
            return stored_of(_decoded(file.read(length)))


class RunFolders:
    """Several runs with the rows of all their episodes, in the order in which they were read."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.runs = [RunFolder(number, path) for number, path in enumerate(paths)]
        self.rows: list[dict[str, Any]] = []

    def refresh(self, progress: Progress = no_progress) -> list[str]:
        """Read what was added to the files, and return what is wrong with them: a run hides no other."""
        problems = []
        for run in self.runs:
            try:
                self.rows.extend(run.new_rows(progress))
                problems.append(run.problem)
            except RunError as error:
                problems.append(str(error))
            except OSError as error:
                problems.append(f"cannot read {run.file}: {error.strerror}")
        return [problem for problem in problems if problem]

    def find(self, name: str) -> Stored | None:
        """Return the episode with this id of the viewer, such as ``0.17``; None when there is none."""
        run, dot, number = name.partition(".")
        if not dot or not (run.isdecimal() and number.isdecimal()) or int(run) >= len(self.runs):
            return None
        return self.runs[int(run)].episode(int(number))


def _decoded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
