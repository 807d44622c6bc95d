"""File ``played_tasks.jsonl`` of a run: the features of the tasks that it plays, for what is learned from many runs.

Episodes name their tasks by id; a reader of old runs need not have the task sets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from ...errors import RunError
from ...models import Record, Task
from ..snapshots.store.cache import write_whole
from ..tasks.static_features import TaskFeatures, task_features

PLAYED_TASKS = "played_tasks.jsonl"


class PlayedTask(Record):
    """One task of a run."""

    task_id: str
    """Id that the episodes name."""
    features: TaskFeatures
    """Features of the task."""


def write_played_tasks(run: Path, tasks: Iterable[Task]) -> None:
    """Add tasks to the file of a run's folder; the file appears atomically. Raises RunError."""
    played = read_played_tasks(run)
    played |= {task.task_id: task_features(task) for task in tasks}
    rows = [PlayedTask(task_id=name, features=features).model_dump(mode="json") for name, features in played.items()]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_whole(run / PLAYED_TASKS, text.encode("utf-8", "replace"))


def read_played_tasks(run: Path) -> dict[str, TaskFeatures]:
    """Return the features of a run's tasks by id, empty for a run without the file. Raises RunError."""
    file = run / PLAYED_TASKS
    if not file.is_file():
        return {}
    played = {}
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        try:
            row = PlayedTask.model_validate_json(line)
        except ValidationError:
            raise RunError(f"{file}:{number} is not a played task; delete the file and play the run again") from None
        played[row.task_id] = row.features
    return played
