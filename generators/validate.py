"""``etude validate``: on every task of a set, the oracle must score 1, doing nothing 0 and the cheater 0."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from ..environments import agents
from ..environments.coding import CodingSession
from ..environments.frames import Infrastructure
from ..environments.play import play
from ..environments.tasks import TaskSet
from ..models import Task

EXPECTED = {"oracle": 1.0, "noop": 0.0, "cheater": 0.0}

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Problem:
    """One episode that did not end as it must; ``reward`` is ``None`` when the machine gave none."""

    task_id: str
    agent: str
    reward: float | None
    cause: str


@dataclass
class ValidationReport:
    """``rows``: one per agent, with its episodes and mean reward."""

    tasks: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.tasks > 0 and not self.problems


def validate(
    folder: Path,
    *,
    sample: int | None = None,
    jobs: int = 1,
    backend: str = "auto",
    progress: Progress = lambda phase, done, total: None,
) -> ValidationReport:
    """Play the three agents on every task (or on ``sample`` tasks, drawn by the hash of their ids).

    Raises TaskSetError for a folder without a readable set. What the machine does wrong is a Problem with its cause,
    never a score.
    """
    tasks = TaskSet.load(folder)
    chosen = sorted(tasks, key=lambda task: hashlib.sha256(task.task_id.encode()).digest())[: sample or None]
    return asyncio.run(_play_all(tasks, chosen, jobs, backend, progress))


async def _play_all(
    tasks: TaskSet, chosen: list[Task], jobs: int, backend: str, progress: Progress
) -> ValidationReport:
    gate = asyncio.Semaphore(jobs)
    games = [(agent, task) for task in chosen for agent in EXPECTED]
    done = 0

    async def one(agent: str, task: Task) -> tuple[str, float | None, Problem | None]:
        nonlocal done
        async with gate:
            reward, cause = await _episode(tasks, task, agent, backend)
        done += 1
        progress("oracle, noop, cheater", done, len(games))
        right = reward == EXPECTED[agent]
        return agent, reward, None if right else Problem(task.task_id, agent, reward, cause)

    results = await asyncio.gather(*(one(agent, task) for agent, task in games))
    report = ValidationReport(tasks=len(chosen), problems=[problem for _, _, problem in results if problem])
    for agent, expected in EXPECTED.items():
        rewards = [reward for name, reward, _ in results if name == agent and reward is not None]
        wrong = sum(problem.agent == agent for problem in report.problems)
        mean = fmean(rewards) if rewards else None
        report.rows.append(
            {"agent": agent, "episodes": len(rewards), "mean_reward": mean, "expected": expected, "wrong": wrong}
        )
    return report


async def _episode(tasks: TaskSet, task: Task, agent: str, backend: str) -> tuple[float | None, str]:
    """Reward and, where it is not 1, why."""
    session = CodingSession(tasks, backend=backend)
    try:
        await play(task, agents.make(agent, task), session)
        episode = session.episode()
    except Infrastructure as error:
        return None, str(error)
    finally:
        await session.close()
    if episode.reward is None or not episode.reward.valid:
        return None, "the episode was not graded"
    failed = episode.grade.failures if episode.grade else []
    return episode.reward.value, f"{failed[0].test}: {failed[0].cause}" if failed else ""
