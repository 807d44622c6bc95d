"""The demo: a real package becomes tasks, is served, and played over the socket by the scripted agents; then a report.

The players use OpenEnv's stock ``GenericEnvClient``: nothing of Etude's own client is needed to play.
"""

from __future__ import annotations

import asyncio
import json
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

import httpx

from ..environments.agents import scripted as agents
from ..environments.agents.erring import script
from ..environments.drill.tasks import DrillTasks
from ..environments.runs.writer import FILE_NAME
from ..environments.sandbox import available
from ..environments.snapshots.store.cache import write_whole
from ..environments.tasks.task_set import TaskSet
from ..errors import DemoError
from ..generators.generate import generate
from ..generators.validation.audit import CHECKS, EXPECTED, validate
from ..models import Episode, SandboxReport, Task
from ..server.viewer import write_report

TURN_TIMEOUT_S = 600.0
DRILL = "drill-chain-1"
STUMBLER = "stumbler"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Row:
    """One agent's line of the table; every episode of an agent must give ``expected``.

    ``error_turns`` are how many were marked; the stumbler's must be its mistakes, each at its turn and of its kind.
    """

    agent: str
    plays: str
    episodes: int
    mean_reward: float
    expected: float
    error_turns: int
    hints: int
    ok: bool


@dataclass(frozen=True)
class Demo:
    """``ok``: oracle 1, noop 0, cheater 0 on every task, the stumbler 1 and its mistakes found, on a task and a drill.

    ``statement`` says how isolated they played, ``report`` is the page that shows every episode.
    """

    source: str
    tasks: int
    rows: list[Row]
    statement: str
    report: str
    ok: bool


@dataclass(frozen=True)
class Game:
    """One episode that is to be played."""

    agent: str
    task: Task

    @property
    def plays(self) -> str:
        return "drill" if self.task.environment == "drill" else "tasks"


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
    games = [Game(agent, task) for agent in EXPECTED for task in tasks]
    games.append(Game(STUMBLER, next((task for task in tasks if task.generator.name.startswith("fd_")), tasks[0])))
    with _served(["--tasks", str(out), "--sandbox", backend], out / "server.log") as url:
        episodes = asyncio.run(_play_all(url, games, jobs, progress))
    drill = [Game(STUMBLER, DrillTasks().by_id(DRILL))]
    with _served(["--env", "drill"], out / "drill.log") as url:
        episodes += asyncio.run(_play_all(url, drill, jobs, progress))
    return _shown(source, out, [*games, *drill], episodes)


def _shown(source: str, out: Path, games: list[Game], episodes: list[Episode]) -> Demo:
    """Write the episodes and their report, and say what they came to."""
    lines = [_stored(game, episode) for game, episode in zip(games, episodes, strict=True)]
    write_whole(out / FILE_NAME, "".join(lines).encode())
    report = write_report([out], out / "report.html", tasks=out)
    played: dict[tuple[str, str], list[tuple[Game, Episode]]] = {}
    for game, episode in zip(games, episodes, strict=True):
        played.setdefault((game.agent, game.plays), []).append((game, episode))
    rows = [_row(*name, pairs) for name, pairs in played.items()]
    sandbox = episodes[0].sandbox
    statement = _statement(sandbox) if sandbox is not None else "sandbox: none"
    tasks = len({game.task.task_id for game in games if game.plays == "tasks"})
    return Demo(source, tasks, rows, statement, report.out, all(row.ok for row in rows))


def _stored(game: Game, episode: Episode) -> str:
    """A line as `etude run` writes it."""
    about = {"agent": game.agent, "cause": "", "sample": 0, "settings": {}, "usage": {}}
    return json.dumps({**about, **episode.model_dump(mode="json")}, ensure_ascii=False) + "\n"


def _row(agent: str, plays: str, played: list[tuple[Game, Episode]]) -> Row:
    expected = 1.0 if agent == STUMBLER else EXPECTED[agent]
    rewards = [episode.reward.value if episode.reward else 0.0 for _, episode in played]
    ok = all(reward == expected for reward in rewards)
    if agent == STUMBLER:
        ok = ok and all(_marked(game.task, episode) for game, episode in played)
    errors = [error for _, episode in played for error in episode.error_turns]
    hints = sum(len(error.hints) for error in errors)
    return Row(agent, plays, len(played), fmean(rewards), expected, len(errors), hints, ok)


def _marked(task: Task, episode: Episode) -> bool:
    """Whether each mistake of the stumbler, and nothing else, is an error turn of its kind."""
    found = [(error.turn, error.kind) for error in episode.error_turns]
    return found == [(mistake.turn, mistake.kind) for mistake in script(task)[1]]


def _statement(sandbox: SandboxReport) -> str:
    """How isolated the agents were and, where a stronger sandbox exists, how to get it."""
    lacks = f", lacks {', '.join(sandbox.lacks)}" if sandbox.lacks else ""
    here = f"sandbox: {sandbox.backend} (isolation by {sandbox.isolation}, limits by {sandbox.limits}{lacks})"
    stronger = takewhile(lambda each: each[0] != sandbox.backend, available().items())
    return ". ".join([here, *(f"Stronger: {name}: {reason}" for name, reason in stronger if reason)])


# --- The server, in a process of its own -----------------------------------------------------------------------------


@contextmanager
def _served(options: list[str], log: Path) -> Iterator[str]:
    """The address of a fresh `etude serve` on a free loopback port."""
    command = [sys.executable, "-P", "-m", f"{__package__.partition('.')[0]}.cli", "serve", "--port", "0", *options]
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


async def _play_all(url: str, games: list[Game], jobs: int, progress: Progress) -> list[Episode]:
    """The episodes of the games, in their order."""
    slots = asyncio.Semaphore(jobs)
    finished = 0

    async def one(game: Game) -> Episode:
        nonlocal finished
        async with slots:
            episode = await play(url, game.task, game.agent)
        finished += 1
        progress("playing over OpenEnv", finished, len(games))
        return episode

    return list(await asyncio.gather(*map(one, games)))


async def play(url: str, task: Task, agent_name: str) -> Episode:
    """One episode through OpenEnv's stock client. Raises DemoError for an agent that gives up."""
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
            answer = await http.get(f"{url}/episodes/{state['episode_id']}", headers=headers)
    return Episode.model_validate(answer.raise_for_status().json())
