"""Etude: real repositories become practice pieces for coding agents.

    tasks = etude.load_tasks("tasks/")
    session = etude.make("coding", tasks=tasks)

This module is the public face. Every name loads when it is first used; ``import etude`` loads nothing else, not even
pydantic, and a test holds that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from .client import Client, connect
    from .environments.tasks.task_set import TaskSet
    from .models import (
        Action,
        Episode,
        ErrorTurn,
        Finding,
        Hint,
        Observation,
        PublicTask,
        Reward,
        State,
        Task,
        Turn,
    )

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Client",
    "Episode",
    "ErrorTurn",
    "Finding",
    "Hint",
    "Observation",
    "PublicTask",
    "Reward",
    "State",
    "Task",
    "TaskSet",
    "Turn",
    "__version__",
    "connect",
    "load_tasks",
    "make",
]

_ELSEWHERE = {"Client": ".client", "connect": ".client", "TaskSet": ".environments.tasks.task_set"}


def make(name: str | None = None, *, tasks: TaskSet | Path | str | None = None, **settings: Any) -> Any:
    """Return a session of the environment ``name`` (default: coding), built-in or a third party's.

    ``tasks`` is a TaskSet or a folder that holds ``tasks.jsonl``; ``settings`` are those of the session. Raises
    UnknownName, which offers the nearest name.
    """
    from .environments import ENVIRONMENTS
    from .models import DEFAULT_ENVIRONMENT

    factory = ENVIRONMENTS.load(name or DEFAULT_ENVIRONMENT)
    if tasks is None:
        return factory(**settings)
    loaded = tasks if hasattr(tasks, "get_task") else load_tasks(tasks)
    return factory(loaded, **settings)


def load_tasks(path: Path | str) -> TaskSet:
    """Return the tasks of a folder that ``etude generate`` wrote, or of ``hub:USER/NAME@REVISION``."""
    from pathlib import Path

    from .environments.tasks.task_set import TaskSet

    return TaskSet.load(Path(path))


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ELSEWHERE.get(name, ".models"), __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
