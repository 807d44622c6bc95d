"""Refusal of tasks that formats with lists of hidden tests cannot express."""

from __future__ import annotations

from ...errors import ExportError
from ...models import PytestVerifier, Task


def refuse_other_verifiers(task: Task) -> None:
    """Raise ExportError for a task of a repository that is not graded by hidden tests."""
    if task.snapshot is not None and not isinstance(task.verifier, PytestVerifier):
        raise ExportError(
            f"{task.task_id} is graded by the verifier {task.verifier.kind!r}, which this format cannot express; "
            "export it as nemo-gym, sft or messages"
        )
