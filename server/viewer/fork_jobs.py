"""Forks that a user of the viewer starts: they run one after the other, and their progress is shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ...environments.hint_trials.forks import ForkSettings, check_fork, fork_episode
from ...environments.runs.reader import Stored
from ...errors import EtudeError, RunError, redact_paths

MAX_WAITING = 8
"""Forks that may wait."""
MAX_SHOWN = 100
"""Forks that are still shown after they have ended."""


class ForkWish(BaseModel):
    """What the page asks for: one continuation for each hint; an empty one means without."""

    model_config = ConfigDict(extra="forbid", strict=True)

    episode: str
    turn: int = Field(ge=0)
    hints: list[str] = Field(min_length=1, max_length=2)


@dataclass
class Arm:
    """One continuation of a fork."""

    hint: str
    state: str = "waits"
    """``waits``, ``turn N`` or ``ended``."""
    episode_id: str = ""
    problem: str = ""


@dataclass
class Job:
    """One fork: the continuations of one episode from one turn."""

    stored: Stored
    episode: str
    turn: int
    arms: list[Arm] = field(default_factory=list)


class ForkJobs:
    """Queue of forks. ``version`` changes with everything that the page shows of them."""

    def __init__(self, settings: ForkSettings) -> None:
        self.settings = settings
        self.version = 0
        self.jobs: list[Job] = []
        self._alone = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, wish: ForkWish, stored: Stored) -> None:
        """Start a fork. Raises RunError when it cannot be made, or when too many wait."""
        for hint in wish.hints:
            check_fork(stored, wish.turn, hint)
        if len(self._tasks) >= MAX_WAITING:
            raise RunError(f"{len(self._tasks)} forks run or wait; try again when one has ended")
        job = Job(stored, wish.episode, wish.turn, [Arm(hint.strip()) for hint in wish.hints])
        self.jobs = [*self.jobs[-MAX_SHOWN + 1 :], job]
        self.version += 1
        task = asyncio.create_task(self._play(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _play(self, job: Job) -> None:
        async with self._alone:
            for arm in job.arms:
                await self._play_arm(job, arm)

    async def _play_arm(self, job: Job, arm: Arm) -> None:
        def progress(turns: int) -> None:
            arm.state = f"turn {turns}"
            self.version += 1

        arm.state = "starts"
        try:
            row = await fork_episode(job.stored, job.turn, arm.hint, self.settings, progress)
            arm.episode_id = row["episode_id"]
        except EtudeError as error:
            arm.problem = redact_paths(str(error))
        arm.state = "ended"
        self.version += 1

    async def stop(self) -> None:
        """Cancel every fork and wait until its sandbox is removed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def shown(self, ids: dict[str, str]) -> list[dict[str, Any]]:
        """Return the forks for the page; ``ids`` are the viewer's ids of episodes by their episode id."""
        return [
            {
                "episode": job.episode,
                "turn": job.turn,
                "arms": [
                    {
                        "hint": bool(arm.hint),
                        "state": arm.state,
                        "problem": arm.problem,
                        "row": ids.get(arm.episode_id) if arm.episode_id else None,
                    }
                    for arm in job.arms
                ],
            }
            for job in self.jobs
        ]
