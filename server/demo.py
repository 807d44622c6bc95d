"""The demo: a real package becomes tasks, is served, and played over the socket by three scripted agents.

The players use OpenEnv's stock ``GenericEnvClient``: nothing of Etude's own client is needed to play.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from statistics import fmean

from ..environments import agents
from ..environments.sandbox import available
from ..environments.tasks import TaskSet
from ..generators.generate import generate
from ..generators.validate import CHECKS, EXPECTED, validate
from ..models import SandboxReport, Task

TURN_TIMEOUT_S = 600.0

Progress = Callable[[str, int, int], None]


class DemoError(Exception):
    """A step of the demo did not do what it should; the message says which and where to look."""


@dataclass(frozen=True)
class Row:
    """One agent's line of the table; every episode of an agent must give ``expected``."""

    agent: str
    episodes: int
    mean_reward: float
    expected: float
    ok: bool


@dataclass(frozen=True)
class Demo:
    """``ok``: oracle 1, noop 0 and cheater 0 on every task. ``statement`` says how isolated they played."""

    source: str
    tasks: int
    rows: list[Row]
    statement: str
    ok: bool


def run_demo(
    source: str = "pypi:cachetools==5.5.0",
    *,
    count: int = 4,
    seed: int = 0,
    out: Path = Path("runs/demo"),
    jobs: int = 2,
    backend: str = "auto",
    progress: Progress = lambda phase, done, total: None,
) -> Demo:
    """Generate, validate, serve, play. Raises DemoError, and what generating and validating raise."""
    report = generate(
        [source], generators=["all"], count=count, seed=seed, out=out, jobs=jobs, backend=backend, progress=progress
    )
    if not report.tasks:
        raise DemoError(f"none of {report.candidates} candidates became a task; {out}/report.json says why")
    others = [name for name in CHECKS if name not in EXPECTED]  # generating has just made them
    problems = validate(out, jobs=jobs, backend=backend, skip=others, progress=progress).problems
    if problems:
        raise DemoError(f"{problems[0]} (`etude validate {out}`)")
    tasks = list(TaskSet.load(out))
    with _served(out, backend) as url:
        rewards, sandbox = asyncio.run(_play_all(url, tasks, jobs, progress))
    rows = [_row(agent, rewards[agent]) for agent in EXPECTED]
    return Demo(source, len(tasks), rows, _statement(sandbox), all(row.ok for row in rows))


def _row(agent: str, rewards: list[float]) -> Row:
    expected = EXPECTED[agent]
    return Row(agent, len(rewards), fmean(rewards), expected, all(reward == expected for reward in rewards))


def _statement(sandbox: SandboxReport) -> str:
    """How isolated the agents were and, where a stronger sandbox exists, how to get it."""
    lacks = f", lacks {', '.join(sandbox.lacks)}" if sandbox.lacks else ""
    here = f"sandbox: {sandbox.backend} (isolation by {sandbox.isolation}, limits by {sandbox.limits}{lacks})"
    stronger = takewhile(lambda each: each[0] != sandbox.backend, available().items())
    return ". ".join([here, *(f"Stronger: {name}: {reason}" for name, reason in stronger if reason)])


# --- The server, in a process of its own -----------------------------------------------------------------------------


@contextmanager
def _served(tasks: Path, backend: str) -> Iterator[str]:
    """The address of a fresh `etude serve` on a free loopback port; its log is ``server.log`` beside the tasks."""
    command = [sys.executable, "-P", "-m", f"{__package__.partition('.')[0]}.cli", "serve"]
    command += ["--tasks", str(tasks), "--port", "0", "--sandbox", backend]
    log = tasks / "server.log"
    with log.open("wb") as errors:
        # A session of its own, so that an interrupt at the terminal reaches us alone and the server is ended in order.
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    try:
        yield _address(server, log)
    finally:
        _stop(server)


def _address(server: subprocess.Popen[str], log: Path) -> str:
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("serving "):
            return line.split()[1]
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    raise DemoError(f"the server did not start: {' '.join(last) or f'exit code {server.wait()}'} (see {log})")


def _stop(server: subprocess.Popen[str]) -> None:
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    if server.stdout is not None:
        server.stdout.close()


# --- The players ---------------------------------------------------------------------------------------------------


async def _play_all(
    url: str, tasks: list[Task], jobs: int, progress: Progress
) -> tuple[dict[str, list[float]], SandboxReport]:
    """Rewards by agent, in the order of the tasks, and the sandbox that the server reported."""
    slots = asyncio.Semaphore(jobs)
    finished = 0
    games = [(agent, task) for agent in EXPECTED for task in tasks]

    async def one(agent: str, task: Task) -> tuple[float, SandboxReport]:
        nonlocal finished
        async with slots:
            result = await play(url, task, agent)
        finished += 1
        progress("playing over OpenEnv", finished, len(games))
        return result

    results = await asyncio.gather(*(one(agent, task) for agent, task in games))
    rewards: dict[str, list[float]] = {agent: [] for agent in EXPECTED}
    for (agent, _), (reward, _) in zip(games, results, strict=True):
        rewards[agent].append(reward)
    return rewards, results[0][1]


async def play(url: str, task: Task, agent_name: str) -> tuple[float, SandboxReport]:
    """One episode through OpenEnv's stock client: its reward, and the sandbox it was played in."""
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
    sandbox = SandboxReport.model_validate(state["sandbox"])
    return float(result.reward or 0.0), sandbox
