"""Fixtures of the replay tests: a served drill, and episodes played on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from etude.client import Client
from etude.environments.drill.tasks import DrillTasks
from etude.models import Episode

TASKS = DrillTasks()
TASK = "drill-chain-11-l2"


@pytest.fixture(scope="package")
def url(drills_url: str) -> str:
    return drills_url


@pytest.fixture(scope="package")
def solution() -> list[dict[str, Any]]:
    """Return the actions that solve TASK; the last one submits."""
    drill = TASKS.drill(TASK)
    return [
        {"tool_calls": [{"id": f"c{i}", "name": name, "arguments": arguments}]}
        for i, (name, arguments) in enumerate([*drill.solution(), ("submit", {"answer": drill.answer})])
    ]


async def played(url: str, actions: Sequence[dict[str, Any]], task_id: str = TASK) -> tuple[Episode, str]:
    """Play these actions; return the episode and the token of its session."""
    async with Client(url) as client:
        await client.reset(task_id=task_id)
        for action in actions:
            await client.step(action)
        return await client.episode(), (await client.state()).token or ""


@pytest.fixture(scope="package")
def stored_episode(url: str, solution: list[dict[str, Any]]) -> tuple[Episode, str]:
    """Return a solved episode that the server still stores, and the token of its session."""
    return asyncio.run(played(url, solution))


@pytest.fixture(scope="package")
def erred(url: str, solution: list[dict[str, Any]]) -> Episode:
    """Return an episode whose student calls an unknown tool at turn 1, then solves the drill."""
    wrong = {"text": "<think>Hm.</think>", "tool_calls": [{"id": "x", "name": "no_such_tool", "arguments": {}}]}
    return asyncio.run(played(url, [solution[0], wrong, *solution[1:]]))[0]
