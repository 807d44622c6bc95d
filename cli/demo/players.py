"""Server and players of the demo: ``etude serve`` as a separate process, played through OpenEnv's stock client.

Nothing of Etude's own client is needed to play.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from ...environments import agents
from ...environments.runs.parallel import at_once
from ...environments.sandbox.kernel.linux import die_with_parent
from ...errors import DemoError
from ...models import Episode, Task
from ..progress import Progress

TURN_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Game:
    """One episode that is to be played."""

    agent: str
    """Name of the agent."""
    task: Task
    """Task that it plays."""

    @property
    def plays(self) -> str:
        """Return the kind of task, as the demo's table names it."""
        return "tasks" if self.task.snapshot is not None else self.task.environment


@contextmanager
def served(options: list[str], log: Path) -> Iterator[str]:
    """Run ``etude serve`` with these options on a free loopback port; yield its address. Raises DemoError.

    The server ends with the block, and also when this process is killed.
    """
    command = [sys.executable, "-P", "-m", f"{__package__.partition('.')[0]}.cli", "serve", "--port", "0", *options]
    with log.open("wb") as errors:
        # In a separate session: Ctrl-C at the terminal reaches this process alone, which then stops the server.
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            preexec_fn=functools.partial(die_with_parent, os.getpid(), signal.SIGTERM),
        )
    try:
        yield _address(server, log)
    finally:
        _stop(server)


def _address(server: subprocess.Popen[str], log: Path) -> str:
    """Return the address that the server prints when it is ready. Raises DemoError when it ends instead."""
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("serving "):
            return line.split()[1]
    last_line = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    cause = " ".join(last_line) or f"exit code {server.wait()}"
    raise DemoError(f"the server did not start: {cause} (see {log})")


def _stop(server: subprocess.Popen[str]) -> None:
    """End the server in order, or kill it after ``STOP_TIMEOUT_S`` seconds."""
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    if server.stdout is not None:
        server.stdout.close()


async def play_all(url: str, games: list[Game], jobs: int, progress: Progress) -> list[Episode]:
    """Play the games, ``jobs`` at once, and return their episodes in the order of the games."""

    async def play_one(game: Game) -> Episode:
        return await play(url, game.task, game.agent)

    return await at_once(games, jobs, play_one, lambda done: progress("episodes over OpenEnv", done, len(games)))


async def play(url: str, task: Task, agent_name: str) -> Episode:
    """Play one episode with OpenEnv's stock client. Raises DemoError when the agent gives up."""
    from openenv.core import GenericEnvClient

    agent = agents.make(agent_name, task)
    async with GenericEnvClient(base_url=url, message_timeout_s=TURN_TIMEOUT_S) as client:
        result = await client.reset(task_id=task.task_id)
        while not result.done:
            action = await agents.next_move(agent, result.observation)
            if action is None:
                raise DemoError(f"{agent_name} gave up on {task.task_id} before the episode ended")
            result = await client.step(action)
        state = await client.state()
        # Error turns, hints and the diff are on the infrastructure side, behind the session's token.
        headers = {"Authorization": f"Bearer {state['token']}"}
        async with httpx.AsyncClient(timeout=TURN_TIMEOUT_S, trust_env=False) as http:
            response = await http.get(f"{url}/episodes/{state['episode_id']}", headers=headers)
    return Episode.model_validate(response.raise_for_status().json())
