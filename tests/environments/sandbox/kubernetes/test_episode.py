"""A task played in pods: its solution scores 1, doing nothing scores 0, and a cluster that is gone is never a score."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from helpers.stand_in_api import Api

from etude.environments import agents
from etude.environments.coding.session import CodingSession
from etude.environments.tasks.task_set import TaskSet
from etude.errors import InfrastructureError

pytestmark = pytest.mark.slow

SUBMIT: dict[str, Any] = {"tool_calls": [{"id": "c1", "name": "submit", "arguments": {}}]}
BASH: dict[str, Any] = {"tool_calls": [{"id": "c1", "name": "bash", "arguments": {"command": "echo here"}}]}


async def reward_of(session: CodingSession, tasks: TaskSet, agent_name: str) -> float:
    """Play the task with an agent and return its reward."""
    task = next(iter(tasks))
    seen = (await session.reset(task_id=task.task_id)).model_dump()
    agent = agents.make(agent_name, task)
    while (action := agent.act(seen)) is not None:
        seen = (await session.step(action)).model_dump()
    return float(seen["reward"])


def test_the_solution_scores_one_and_doing_nothing_zero(
    api: Api, tasks: TaskSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETUDE_SANDBOX", "kubernetes")

    async def play() -> dict[str, float]:
        session = CodingSession(tasks)
        try:
            return {name: await reward_of(session, tasks, name) for name in ("oracle", "noop")}
        finally:
            await session.close()

    assert asyncio.run(play()) == {"oracle": 1.0, "noop": 0.0}
    # The workspace's pod, and for each grade a fresh one.
    assert len(api.cluster.created) >= 3


@pytest.mark.parametrize("moment", ["before a tool call", "before the grading"])
def test_an_episode_is_void_when_the_cluster_disappears(api: Api, tasks: TaskSet, moment: str) -> None:
    async def play() -> None:
        session = CodingSession(tasks, backend="kubernetes")
        try:
            await session.reset()
            assert (await session.step(BASH)).messages[0].content == "ok\nhere\n"
            await asyncio.to_thread(api.close)
            with pytest.raises(InfrastructureError):
                await session.step(SUBMIT if moment == "before the grading" else BASH)
            reward = session.state().reward
            assert reward is not None and not reward.valid and session.state().end is None
            await asyncio.to_thread(api.open, api.port)
            assert await reward_of(session, tasks, "oracle") == 1.0
        finally:
            await session.close()

    asyncio.run(play())
