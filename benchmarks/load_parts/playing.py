"""Concurrent sessions of real tasks through the WebSocket client, and the times of their phases."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from etude.client import Client
from etude.environments.actions import call, turn
from etude.environments.agents.scripted import solution
from etude.errors import EtudeError
from etude.models import Task

T = TypeVar("T")
Measure = Callable[[], tuple[float, int]]
CHECKS = [turn("look", call("list_files")), turn("look", call("bash", command="ls && git status --short | head"))]
"""Turns that every episode plays before its solution."""
TURNS = 25
"""Turns of an episode whose steps are timed, far below the budget of an episode."""
ECHO = turn("", call("bash", command="true"))
"""The turn whose time is compared with and without gradings."""


@dataclass
class Times:
    """Seconds of each phase, rewards, and errors by their first words."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"reset": [], "step": [], "grade": []})
    rewards: Counter[float] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def row(self, wall_s: float) -> dict[str, float | str]:
        """Return the numbers of a run that took ``wall_s``."""
        episodes = self.rewards.total()
        row: dict[str, float | str] = {"episodes": episodes, "episodes per minute": round(60 * episodes / wall_s, 1)}
        for phase, seconds in self.seconds.items():
            row[f"{phase} p50 ms"], row[f"{phase} p95 ms"] = quantile(seconds, 50), quantile(seconds, 95)
        return {**row, "solved": self.rewards[1.0], "errors": sum(self.errors.values())}


def quantile(seconds: Sequence[float], percent: int) -> float:
    """Return a quantile in milliseconds; 0 for no times."""
    if len(seconds) < 2:
        return round(1000 * sum(seconds), 1)
    return round(1000 * statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1], 1)


async def play(url: str, tasks: Sequence[Task], sessions: int, episodes: int) -> tuple[Times, float]:
    """Play episodes in as many sessions at a time; return their times and the seconds of all."""
    times, numbers = Times(), iter(range(episodes))
    began = time.perf_counter()

    async def session() -> None:
        for number in numbers:
            try:
                async with Client(url, connect_timeout_s=120) as client:
                    await episode(client, tasks[number % len(tasks)], times)
            except EtudeError as error:
                times.errors[f"{type(error).__name__}: {str(error)[:80]}"] += 1

    await asyncio.gather(*(session() for _ in range(sessions)))
    return times, time.perf_counter() - began


async def episode(client: Client, task: Task, times: Times) -> None:
    """Play a task's own solution, and note the times."""
    solved = solution(task)
    await timed(times, "reset", client.reset(task_id=task.task_id))
    for action in [*CHECKS, *solved.actions]:
        await timed(times, "step", client.step(action))
    last = await timed(times, "grade", client.step(turn("done", solved.submission)))
    times.rewards[last.reward] += 1


async def timed(times: Times, phase: str, waiting: Coroutine[Any, Any, T]) -> T:
    """Await a call and note its seconds."""
    began = time.perf_counter()
    result = await waiting
    times.seconds[phase].append(time.perf_counter() - began)
    return result


async def idle(url: str, tasks: Sequence[Task], sessions: int, measure: Measure) -> dict[str, float]:
    """Return what a connection costs, and what a session adds that waits in an episode.

    ``measure`` gives the MiB of the server and its number of processes, those of sandboxes included.
    """
    async with AsyncExitStack() as stack:
        before, _ = measure()
        clients = [await stack.enter_async_context(Client(url, connect_timeout_s=120)) for _ in range(sessions)]
        connected, few = measure()
        for number, client in enumerate(clients):
            await client.reset(task_id=tasks[number % len(tasks)].task_id)
        playing, more = measure()
    return {
        "KiB per connection": round(1024 * (connected - before) / sessions, 1),
        "KiB per idle session": round(1024 * (playing - connected) / sessions, 1),
        "processes per idle session": round((more - few) / sessions, 2),
    }


async def steps_beside_gradings(url: str, tasks: Sequence[Task], steps: int, graders: int) -> tuple[float, float]:
    """Return the 95th percentile of a step's milliseconds, alone and while ``graders`` sessions are being graded."""
    alone, beside, stop = Times(), Times(), asyncio.Event()

    async def grade(number: int) -> None:
        task = tasks[number % len(tasks)]
        while not stop.is_set():
            async with Client(url, connect_timeout_s=120) as client:
                await client.reset(task_id=task.task_id)
                await client.step(turn("done", solution(task).submission))

    async with Client(url) as client:
        for times in (alone, beside):
            if times is beside:
                running = [asyncio.create_task(grade(number)) for number in range(graders)]
                await asyncio.sleep(1.0)
            for number in range(steps):
                if number % TURNS == 0:
                    await client.reset(task_id=tasks[0].task_id)
                await timed(times, "step", client.step(ECHO))
        stop.set()
        await asyncio.gather(*running)
    return quantile(alone.seconds["step"], 95), quantile(beside.seconds["step"], 95)
