"""What a server plays: an environment's sessions, the tasks they take, the tools that are listed before a reset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..environments import ENVIRONMENTS, wire
from ..environments.coding import CodingSession
from ..environments.drills.play import SUBMIT
from ..environments.drills.tasks import DrillTasks
from ..environments.faults.schedule import read_schedule
from ..environments.forks import EpisodeStore
from ..environments.tasks import Tasks, TaskSet
from ..environments.tool_errors import FaultySession, Traces
from ..environments.tools import TOOLS, schemas

DRILL = "drill"


def tasks_of(environment: str, folder: str | Path, knobs: Mapping[str, Any] | None = None) -> Tasks:
    """The task set in ``folder``, none for an empty name; drills make their own from ``families`` and ``level``.

    Raises TaskSetError, UnknownName for an environment or family that there is not, ValueError.
    """
    ENVIRONMENTS.load(environment)
    if environment != DRILL:
        if knobs:
            raise ValueError(f"only drills have knobs, {environment!r} has none: leave out --knob")
        return TaskSet.load(Path(folder)) if str(folder) else TaskSet([])
    if str(folder):
        raise ValueError("drills are made on the fly: leave out --tasks and ETUDE_TASKS")
    given = dict(knobs or {})
    families, level = given.pop("families", None), given.pop("level", None)
    if given:
        raise ValueError(f"drills have the knobs families and level, not {', '.join(given)}")
    names = [name.strip() for name in families.split(",")] if isinstance(families, str) else families
    if not (names is None or isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"families is {families!r}: give names, such as families=choose,chain")
    return DrillTasks(names, level=level)


def sessions_of(
    environment: str, tasks: Tasks, *, backend: str = "auto", faults: str = "", keep: bool = True
) -> Callable[[], wire.Session]:
    """Makes sessions that share what forks start from, with ``faults`` (see ``faults.schedule``) in their episodes.

    Without ``keep`` none of them can be forked.

    Raises UnknownName, and FaultsError for faults that cannot be read.
    """
    factory, store, traces = ENVIRONMENTS.load(environment), EpisodeStore(None if keep else 0), Traces()
    options = {"backend": backend} if factory is CodingSession else {}
    return with_faults(lambda: factory(tasks, store=store, **options), faults, traces)


def with_faults(make: Callable[[], wire.Session], faults: str, traces: Traces) -> Callable[[], wire.Session]:
    """The same sessions with ``faults`` and with ``reset(faults=...)``. Raises FaultsError."""
    read_schedule(faults)
    return lambda: FaultySession(make(), faults, traces=traces)


def tools_of(environment: str) -> list[dict[str, Any]]:
    """The tools that are listed before any reset."""
    return [SUBMIT] if environment == DRILL else schemas(list(TOOLS))
