"""Tasks as rows of a NeMo Gym dataset, for the REST session of a server that serves the same tasks.

A row has public parts only: what the policy reads (the prompt and the tools, in OpenAI's Responses format), and the
``task_id`` that ``/seed_session`` takes. The ``nemo-gym`` taskset of verifiers reads the same rows. ``agent_ref`` names
the agent of ``trainers/integrations/packages/nemo_gym``.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

from ...environments import ENVIRONMENTS
from ...environments.base import BaseSession
from ...environments.declaration import Opening
from ...environments.tasks.task_set import TaskSet
from ...errors import ExportError, InfrastructureError, SessionError, UnknownName
from ...models import Task
from .expressible import refuse_episodes

AGENT = "etude_simple_agent"


def rows(tasks: TaskSet, episodes: Path | None = None) -> list[dict[str, Any]]:
    """Return tasks as rows of NeMo Gym, for the REST session of a server, in order.

    Raises ExportError for episodes, and for a task that its environment cannot show.
    """
    refuse_episodes(episodes, "nemo-gym")
    return asyncio.run(collect_rows(tasks))


async def collect_rows(tasks: TaskSet) -> list[dict[str, Any]]:
    """Return one row per task, in order. Raises ExportError for a task that its environment cannot show."""
    sessions: dict[str, BaseSession] = {}
    built = []
    try:
        for task in tasks:
            try:
                if task.environment not in sessions:
                    environment: type[BaseSession] = ENVIRONMENTS.load(task.environment)
                    sessions[task.environment] = environment.open(tasks)
                built.append(row_of(task, await sessions[task.environment].row(task)))
            except (UnknownName, SessionError, InfrastructureError) as error:
                raise ExportError(f"task {task.task_id!r} has no row: {error}") from None
    finally:
        for session in sessions.values():
            await session.close()
    return built


def row_of(task: Task, opening: Opening, key: str = "") -> dict[str, Any]:
    """Return the row of a task from the prompt and the tools (in OpenAI's chat format) that its agent is shown.

    ``key`` must be unguessable for a policy, because ``/verify`` grades for every client that repeats the row. It
    defaults to the hash of the whole task with its secret parts.
    """
    public = task.public()
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": opening.prompt}],
            "tools": [{"type": "function", **tool["function"], "strict": False} for tool in opening.tools],
        },
        "agent_ref": {"type": "responses_api_agents", "name": AGENT},
        "task_id": public.task_id,
        "key": key or hashlib.sha256(task.model_dump_json().encode()).hexdigest()[:32],
        "repo": public.repo,
        "licence": public.licence,
        "features": public.features,
    }
