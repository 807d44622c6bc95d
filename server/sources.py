"""What a server plays: an environment's sessions, the tasks they take, the tools that are listed before a reset."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..environments import ENVIRONMENTS
from ..environments import openenv as wire
from ..environments.coding.session import Budget, CodingSession
from ..environments.coding.tools import TOOLS, schemas
from ..environments.drill.play import SUBMIT
from ..environments.drill.tasks import DrillTasks
from ..environments.faults.faulty_session import FaultySession, Traces
from ..environments.faults.schedule import read_schedule
from ..environments.forks import EpisodeStore
from ..environments.reset_args import tool_names
from ..environments.tasks.task_set import Tasks, TaskSet
from ..errors import SessionError
from ..generators.export import nemo_gym
from ..models import Task

CODING, DRILL = "coding", "drill"


def tasks_of(environment: str, folder: str | Path, knobs: Mapping[str, Any] | None = None) -> Tasks:
    """The task set in ``folder``, none for an empty name; drills make their own from ``families`` and ``level``.

    The knobs of coding are its sessions' (see ``coding_knobs``). Raises TaskSetError, UnknownName for an environment or
    family that there is not, ValueError.
    """
    ENVIRONMENTS.load(environment)
    if environment != DRILL:
        if knobs and environment != CODING:
            raise ValueError(f"only coding and drills have knobs, {environment!r} has none: leave out --knob")
        return TaskSet.load(Path(folder)) if str(folder) else TaskSet([])
    if str(folder):
        raise ValueError("drills are made on the fly: leave out --tasks and ETUDE_TASKS")
    given = dict(knobs or {})
    families, level = given.pop("families", None), given.pop("level", None)
    if given:
        raise ValueError(f"drills have the knobs families and level, not {', '.join(given)}")
    names = _names(families)
    if families is not None and names is None:
        raise ValueError(f"families is {families!r}: give names, such as families=choose,chain")
    return DrillTasks(names, level=level)


def coding_knobs(knobs: Mapping[str, Any]) -> dict[str, Any]:
    """What its sessions are made with: at most so many ``turns`` an episode, and the ``tools``. Raises ValueError."""
    given, made = dict(knobs), dict[str, Any]()
    if "turns" in given:
        turns = given.pop("turns")
        if type(turns) is not int or turns < 1:
            raise ValueError(f"turns is {turns!r}: give a number, 1 or more")
        made["budget"] = Budget(turns=turns)
    if "tools" in given:
        tools = given.pop("tools")
        names = _names(tools)
        if not names:
            raise ValueError(f"tools is {tools!r}: give names, such as tools=edit_file,submit")
        try:
            made["tools"] = tool_names(names)
        except SessionError as error:
            raise ValueError(str(error)) from None
    if given:
        raise ValueError(f"coding has the knobs turns and tools, not {', '.join(given)}")
    return made


def _names(value: Any) -> list[str] | None:
    """A list of names, or names with commas between; None for anything else."""
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def sessions_of(
    environment: str,
    tasks: Tasks,
    *,
    backend: str = "auto",
    faults: str = "",
    keep: bool = True,
    knobs: Mapping[str, Any] | None = None,
) -> Callable[[], wire.Session]:
    """Makes sessions that share what forks start from, with ``faults`` (see ``faults.schedule``) in their episodes.

    Without ``keep`` none of them can be forked; ``knobs`` are coding's.

    Raises UnknownName, FaultsError for faults that cannot be read, ValueError.
    """
    factory, store, traces = ENVIRONMENTS.load(environment), EpisodeStore(None if keep else 0), Traces()
    options = {"backend": backend, **coding_knobs(knobs or {})} if factory is CodingSession else {}
    return with_faults(lambda: factory(tasks, store=store, **options), faults, traces)


def with_faults(make: Callable[[], wire.Session], faults: str, traces: Traces) -> Callable[[], wire.Session]:
    """The same sessions with ``faults`` and with ``reset(faults=...)``. Raises FaultsError."""
    read_schedule(faults)
    return lambda: FaultySession(make(), faults, traces=traces)


def tools_of(environment: str, knobs: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The tools that are listed before any reset."""
    return [SUBMIT] if environment == DRILL else schemas(_tool_names(knobs))


def _tool_names(knobs: Mapping[str, Any] | None) -> Sequence[str]:
    """Coding's. Raises ValueError."""
    names: Sequence[str] = coding_knobs(knobs or {}).get("tools", list(TOOLS))
    return names


async def row_of(task: Task, session: Callable[[], wire.Session], knobs: Mapping[str, Any] | None) -> dict[str, Any]:
    """A coding task's row is known without a sandbox; other sessions need none, and say what their policy reads.

    ``session`` keeps nothing for forks: anybody may ask for rows, and would drive out the episodes of those who play.
    """
    if task.environment == CODING:
        return nemo_gym.row(task, _tool_names(knobs))
    played = session()
    try:
        first = await played.reset(task_id=task.task_id)
    finally:
        await played.close()
    return nemo_gym.row_of(task, first.prompt or "", first.tools or [], secrets.token_hex(16))
