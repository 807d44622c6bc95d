"""Served drills for loops of others: one with a limit of sessions, one whose turns wait for each other."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers import async_grpo_world, light_server

HERE = Path(__file__).parent
DRILLS = ["--env", "drill", "--knob", 'families=["choose"]', "--knob", "level=1"]
LIMIT = 4


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A policy's tokenizer, as a folder."""
    folder = tmp_path_factory.mktemp("policy")
    async_grpo_world.WORDS.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def world(drill_url: str, saved: str) -> Iterator[Any]:
    made = async_grpo_world.World(drill_url, saved)
    yield made
    for factory in made.made:
        factory.close()


@pytest.fixture(scope="session")
def light() -> ModuleType:
    return light_server


def start() -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-u", "-m", "etude.cli", "serve", "--port", "0", *DRILLS]
    limited = {**os.environ, "MAX_CONCURRENT_ENVS": str(LIMIT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=limited)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("serving "), line
    return process, line.removeprefix("serving ").strip()


@pytest.fixture(scope="session")
def limited_url() -> Iterator[str]:
    """`etude serve --env drill` in a process of its own, with room for LIMIT sessions."""
    process, url = start()
    yield url
    process.terminate()
    process.wait()


@pytest.fixture
def mortal() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The same, to be killed by its test."""
    process, url = start()
    yield process, url
    process.kill()
    process.wait()


@pytest.fixture
def meeting(light: Any) -> Callable[[int], AbstractContextManager[Any]]:
    """Serves drills whose turns, but for submits, end only when so many sessions play one at the same time."""
    from etude.environments.drill.session import DrillSession
    from etude.environments.drill.tasks import DrillTasks
    from etude.server.app import create_app

    def serve(number: int) -> AbstractContextManager[Any]:
        tasks = DrillTasks(["choose"], level=1)
        met = asyncio.Barrier(number)

        class Meeting(DrillSession):
            async def step(self, action: Mapping[str, Any]) -> Any:
                if action["tool_calls"][0]["name"] != "submit":
                    await asyncio.wait_for(met.wait(), 20)
                return await super().step(action)

        app: AbstractContextManager[Any] = light.serving(
            create_app(tasks, environment="drill", make_session=lambda: Meeting(tasks))
        )
        return app

    return serve
