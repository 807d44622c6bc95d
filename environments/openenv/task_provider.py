"""OpenEnv's task provider over a task set: the public parts of its tasks."""

from __future__ import annotations

from openenv.core.env_server.types import EnvironmentMetadata

from ...models import PublicTask
from ...registry import did_you_mean
from ..tasks.task_set import Tasks

DESCRIPTION = "Real repositories as practice pieces for coding agents: hidden tests, exact error turns, hints."


class TaskProvider:
    """Methods by which OpenEnv lists tasks; ``tasks`` is the task set."""

    tasks: Tasks

    def list_splits(self) -> list[str]:
        """Return the names of the splits."""
        return list(self.tasks.list_splits())

    def list_tasks(self, split: str) -> list[PublicTask]:
        """Return a split's rows. Raises IndexError for an unknown split: OpenEnv reports it as a client's mistake."""
        if split not in self.tasks.list_splits():
            raise IndexError(did_you_mean("split", split, self.tasks.list_splits()))
        return self.tasks.list_tasks(split)

    def num_tasks(self, split: str) -> int:
        """Return the number of rows of a split."""
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> PublicTask:
        """Return one row. Raises IndexError."""
        rows = self.list_tasks(split)
        if not 0 <= index < len(rows):
            raise IndexError(f"split {split!r} has tasks 0 to {len(rows) - 1}")
        return rows[index]

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[PublicTask]:
        """Return some rows of a split."""
        return self.list_tasks(split)[start:stop]

    def get_metadata(self) -> EnvironmentMetadata:
        """Return OpenEnv's description of the environment."""
        return EnvironmentMetadata(name="etude", description=DESCRIPTION, version="0.1.0", author="Etude")
