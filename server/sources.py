"""Sources of a server: the tasks and sessions of its environment, the tools listed before a reset, export rows."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..environments import ENVIRONMENTS
from ..environments.base import BaseSession, row_by_reset
from ..environments.declaration import GIVE_UP_SCHEMA, read_knobs
from ..environments.forks import EpisodeStore
from ..environments.session import Session
from ..environments.tasks.task_set import Tasks, TaskSet, environment_of
from ..generators.export import nemo_gym
from ..models import MAY_GIVE_UP, Task


def environment_in(folder: Path | str) -> str:
    """Return the environment that the tasks of a folder name, ``coding`` for none. Raises TaskSetError, ValueError."""
    return environment_of(TaskSet.load(Path(folder)) if str(folder) else [])


def tasks_of(environment: str, folder: str | Path, knobs: Mapping[str, Any] | None = None) -> Tasks:
    """Return the task set in ``folder`` (an empty name: none), or the tasks that the environment makes itself.

    Raises TaskSetError, UnknownName for an unknown environment, ValueError for bad knobs or a folder that is not read.
    """
    played: type[BaseSession] = ENVIRONMENTS.load(environment)
    return played.tasks(Path(folder) if str(folder) else None, read_knobs(played, knobs or {}))


def sessions_of(
    environment: str,
    tasks: Tasks,
    *,
    backend: str = "auto",
    faults: str = "",
    keep: bool = True,
    knobs: Mapping[str, Any] | None = None,
    prefix: str = "",
) -> Callable[[], BaseSession]:
    """Return a factory of sessions that share what forks start from, with ``faults`` in their episodes.

    Without ``keep`` their episodes cannot be forked. Their tokens begin with ``prefix``. Raises UnknownName,
    FaultsError, ValueError.
    """
    played: type[BaseSession] = ENVIRONMENTS.load(environment)
    chosen, store = read_knobs(played, knobs or {}), EpisodeStore(None if keep else 0, prefix=prefix)

    def make() -> BaseSession:
        return played.open(tasks, chosen, backend=backend, faults=faults, store=store)

    make()  # a session opens nothing before its first reset, but it checks its options
    return make


def tools_of(environment: str, tasks: Tasks, knobs: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the tools that are listed before any reset; ``give_up`` where a set's tasks offer it.

    Raises UnknownName and ValueError.
    """
    played: type[BaseSession] = ENVIRONMENTS.load(environment)
    tools: list[dict[str, Any]] = played.tools(read_knobs(played, knobs or {}))
    offered = isinstance(tasks, TaskSet) and any(task.features.get(MAY_GIVE_UP) for task in tasks)
    return [*tools, GIVE_UP_SCHEMA] if offered else tools


async def row_of(task: Task, make_session: Callable[[], Session]) -> dict[str, Any]:
    """Return a task's row for ``/seed_session``.

    The session should keep nothing for forks: rows are public, and their episodes would drive out those being played.
    """
    session = make_session()
    try:
        if not isinstance(session, BaseSession):
            return nemo_gym.row_of(task, await row_by_reset(session, task), secrets.token_hex(16))
        # A policy can make tasks that an environment makes itself, so the hash of such a task is not secret.
        key = secrets.token_hex(16) if session.makes_tasks else ""
        return nemo_gym.row_of(task, await session.row(task), key)
    finally:
        await session.close()
