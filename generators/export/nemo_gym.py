"""Tasks as rows of a NeMo Gym dataset, for the REST session of a server that serves the same tasks.

A row has public parts only: what the policy reads (the prompt and the tools, in OpenAI's Responses format), and the
``task_id`` that ``/seed_session`` takes. The ``nemo-gym`` taskset of verifiers reads the same rows. ``agent_ref`` names
the agent of ``trainers/integrations/packages/nemo_gym``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...environments.coding.tools import TOOLS, schemas
from ...environments.reset_args import prompt
from ...environments.tasks.task_set import TaskSet
from ...errors import ExportError
from ...models import Task

AGENT = "etude_simple_agent"


def rows(tasks: TaskSet, episodes: Path | None = None) -> list[dict[str, Any]]:
    """Return one row per task, in order. Raises ExportError for tasks that another environment plays."""
    del episodes  # a row describes a task
    return [row(task) for task in tasks]


def row(task: Task, names: Sequence[str] = tuple(TOOLS)) -> dict[str, Any]:
    """Return the row of a coding task; ``names`` are the tools of its session. Raises ExportError."""
    if task.environment != "coding":
        raise ExportError(f"{task.task_id} is played by {task.environment!r}; export coding tasks only")
    key = hashlib.sha256(task.model_dump_json().encode()).hexdigest()[:32]
    return row_of(task, prompt(task, names), schemas(names), key)


def row_of(task: Task, shown: str, tools: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any]:
    """Return the row of any task, from the prompt and the tools (in OpenAI's chat format) of its session.

    ``key`` must be unguessable for a policy, because ``/verify`` grades for every client that repeats the row.
    """
    public = task.public()
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": shown}],
            "tools": [{"type": "function", **tool["function"], "strict": False} for tool in tools],
        },
        "agent_ref": {"type": "responses_api_agents", "name": AGENT},
        "task_id": public.task_id,
        "key": key,
        "repo": public.repo,
        "licence": public.licence,
        "features": public.features,
    }
