"""An engine that disappears during an episode: the episode is void, never a score, and the next one is right."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from helpers.engine_doorway import Doorway

from etude.environments import agents
from etude.environments.coding.session import CodingSession
from etude.environments.sandbox.docker import backend as docker
from etude.environments.sandbox.docker.engine import DOCKER
from etude.environments.sandbox.docker.pool import close_pool
from etude.environments.tasks.task_set import TaskSet
from etude.errors import InfrastructureError, SessionError

pytestmark = pytest.mark.slow


async def solve(session: CodingSession, tasks: TaskSet) -> float:
    """Play the task's solution and return its reward."""
    task = next(iter(tasks))
    seen = (await session.reset(task_id=task.task_id)).model_dump()
    agent = agents.make("oracle", task)
    while (action := agent.act(seen)) is not None:
        seen = (await session.step(action)).model_dump()
    return float(seen["reward"])


@pytest.mark.parametrize("moment", ["before a tool call", "before the grading"])
def test_episode_is_void_when_the_engine_disappears(
    moment: str, tasks: TaskSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why_not = docker.probe(DOCKER)
    if why_not:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why_not)
    doorway = Doorway(tmp_path / "engine.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{doorway.path}")
    submit = {"tool_calls": [{"id": "c1", "name": "submit", "arguments": {}}]}
    bash = {"tool_calls": [{"id": "c1", "name": "bash", "arguments": {"command": "echo here"}}]}

    async def play() -> None:
        session = CodingSession(tasks, backend="docker")
        await session.reset()
        assert (await session.step(bash)).messages[0].content == "ok\nhere\n"
        doorway.close()
        with pytest.raises(InfrastructureError, match="engine"):
            await session.step(submit if moment == "before the grading" else bash)
        reward = session.state().reward
        assert reward is not None and not reward.valid and session.state().end is None
        with pytest.raises(SessionError, match="this episode is void"):
            await session.step(submit)
        doorway.open()
        assert await solve(session, tasks) == 1.0
        await session.close()

    try:
        asyncio.run(play())
    finally:
        close_pool()
        doorway.close()
