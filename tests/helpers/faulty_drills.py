"""Drills played in sessions with faults: calls, exercises that faults of different kinds fit, and whole episodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import DrillTasks
from etude.models import Episode

TASKS = DrillTasks()
GIVE_UP = {"tool": "submit", "arguments": {"answer": "?"}}
Action = dict[str, Any]


def call(name: str, **arguments: Any) -> Action:
    """Return an action of one call."""
    return {"tool": name, "arguments": arguments}


def steps(task_id: str) -> list[Action]:
    """Return the calls that solve a drill, and the submission."""
    drill = TASKS.drill(task_id)
    solving = [call(name, **arguments) for name, arguments in drill.solution()]
    return [*solving, call("submit", answer=drill.answer)]


def find(family: str, level: int, fits: Callable[[str], bool]) -> str:
    """Return the id of the first drill that ``fits``."""
    return next(item for seed in range(200) if fits(item := f"drill-{family}-{seed}-l{level}"))


FILES = find("chain", 2, lambda item: TASKS.drill(item).workdir == "/cabinet" and not TASKS.drill(item).effects)
COPY = find("chain", 2, lambda item: bool(TASKS.drill(item).effects))
LOADS = find("stop", 4, lambda item: len(TASKS.drill(item).solution()) == 4)
READ = TASKS.drill(FILES).solution()[0][0]


def play(script: Callable[[DrillSession], Awaitable[Any]], **options: Any) -> Any:
    """Run a script in a new session of drills, and return its result."""

    async def run() -> Any:
        session = DrillSession(TASKS, **options)
        try:
            return await script(session)
        finally:
            await session.close()

    return asyncio.run(run())


def episode_of(task_id: str, faults: str, *actions: Action) -> Episode:
    """Play the actions with these faults, and return the episode."""

    async def script(session: DrillSession) -> Episode:
        await session.reset(task_id=task_id, faults=faults)
        for action in actions:
            await session.step(action)
        return session.episode()

    episode: Episode = play(script)
    return episode


def value(episode: Episode) -> float:
    """Return the reward of a valid episode."""
    assert episode.reward is not None and episode.reward.valid
    return episode.reward.value
