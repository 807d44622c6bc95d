"""Refusal of what a format cannot express: tasks without hidden tests, and episodes."""

from __future__ import annotations

from pathlib import Path

from ...errors import ExportError
from ...models import PytestVerifier, Task


def refuse_other_verifiers(task: Task) -> None:
    """Raise ExportError for a task of a repository that is not graded by hidden tests."""
    if task.snapshot is not None and not isinstance(task.verifier, PytestVerifier):
        raise ExportError(
            f"{task.task_id} is graded by the verifier {task.verifier.kind!r}, which this format cannot express; "
            "export it as nemo-gym, sft or messages"
        )


def refuse_episodes(episodes: Path | None, name: str) -> None:
    """Raise ExportError when a run is given to the format ``name``, whose rows describe tasks."""
    if episodes is not None:
        raise ExportError(f"the format {name} describes tasks and takes no --episodes; export as sft or messages")
