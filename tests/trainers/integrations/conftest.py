"""Fixtures for other frameworks' loops: drills with a limit of sessions, and drills whose turns wait for each other."""

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
from helpers import light_server

HERE = Path(__file__).parent
DRILLS = ["--env", "drill", "--knob", 'families=["choose"]', "--knob", "level=1"]
LIMIT = 4


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of a policy's tokenizer."""
    from helpers import async_grpo_world

    folder = tmp_path_factory.mktemp("policy")
    async_grpo_world.WORDS.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def world(drill_url: str, tokenizer_folder: str) -> Iterator[Any]:
    from helpers import async_grpo_world

    world = async_grpo_world.World(drill_url, tokenizer_folder)
    yield world
    for factory in world.factories:
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
    """Run `etude serve --env drill` in another process, with room for LIMIT sessions."""
    process, url = start()
    yield url
    process.terminate()
    process.wait()


@pytest.fixture
def mortal() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the same server for one test, which kills it."""
    process, url = start()
    yield process, url
    process.kill()
    process.wait()


@pytest.fixture
def meeting(light: Any) -> Callable[[int], AbstractContextManager[Any]]:
    """Serve drills whose turns, except submits, end only when that many sessions play one at the same time."""
    from etude.environments.drill.session import DrillSession
    from etude.environments.drill.tasks import DrillTasks
    from etude.server.app import create_app

    def serve(number: int) -> AbstractContextManager[Any]:
        tasks = DrillTasks(["choose"], level=1)
        barrier = asyncio.Barrier(number)

        class Meeting(DrillSession):
            async def step(self, action: Mapping[str, Any]) -> Any:
                if action["tool_calls"][0]["name"] != "submit":
                    await asyncio.wait_for(barrier.wait(), 20)
                return await super().step(action)

        app: AbstractContextManager[Any] = light.serving(
            create_app(tasks, environment="drill", make_session=lambda: Meeting(tasks))
        )
        return app

    return serve
