"""Served drills for loops of others: one with a limit of sessions, one whose turns wait for each other."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent
DRILLS = ["--env", "drill", "--knob", 'families=["choose"]', "--knob", "level=1"]
LIMIT = 4


def _load(name: str, path: Path) -> ModuleType:
    """pytest's importlib mode has no other way to share a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_load("stock_trainer_here", HERE / "stock_trainer.py")
_load("engine_here", HERE / "engine_here.py")
_load("worker_here", HERE / "worker_here.py")
_load("owned_here", HERE / "owned_here.py")


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A policy's tokenizer, as a folder."""
    folder = tmp_path_factory.mktemp("policy")
    sys.modules["owned_here"].WORDS.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def world(drill_url: str, saved: str) -> Iterator[Any]:
    made = sys.modules["owned_here"].World(drill_url, saved)
    yield made
    for factory in made.made:
        factory.close()


@pytest.fixture(scope="session")
def light() -> ModuleType:
    return _load("light", HERE.parents[1] / "server" / "light.py")


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
    from etude.environments.drill import DrillSession
    from etude.environments.drills.tasks import DrillTasks
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
