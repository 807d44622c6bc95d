"""Play episodes with a scripted agent, here or on a server, and write down what happened.

``OUT/episodes.jsonl`` gets one line per finished episode as it finishes, so an interrupted run goes on where it
stopped; ``OUT/summary.json`` is written at the end.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from .. import client
from ..models import Episode, Observation, Reward, Task
from . import agents
from .coding import CodingSession
from .frames import Infrastructure
from .snapshots.locks import write_whole
from .tasks import TaskSet

Progress = Callable[[str, int, int], None]


class RunError(Exception):
    """A run that cannot begin; the message says why, and nothing has been written."""


class Player(Protocol):
    """What an agent plays against: a session in this process or a client of a server."""

    async def reset(self, *, task_id: str) -> Observation: ...

    async def step(self, action: Mapping[str, Any]) -> Observation: ...


@dataclass(frozen=True)
class Summary:
    """What a run came to. ``reward`` is the mean over valid episodes, ``None`` when there is none.

    ``ok`` says that every episode got an honest score, whatever it was.
    """

    agent: str
    episodes: int
    valid: int
    reward: float | None
    solved: int
    ends: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    sandbox: list[str] = field(default_factory=list)
    out: str = ""

    @property
    def ok(self) -> bool:
        return self.episodes > 0 and self.valid == self.episodes


async def run_episodes(
    tasks: TaskSet,
    agent_name: str,
    *,
    url: str | None = None,
    jobs: int = 1,
    out: Path,
    n: int | None = None,
    backend: str = "auto",
    progress: Progress = lambda phase, done, total: None,
) -> Summary:
    """Play ``n`` tasks (default: each once) with ``agent_name``, ``jobs`` at a time; tasks that ``out`` holds are done.

    An episode that the machine spoils is recorded ``valid: false`` with its cause, played again by the next run, and
    counts in no mean. Raises, before anything is written, UnknownName for an agent that there is not, RunError for
    an ``out`` of other things, and ConnectionLost when no server answers.
    """
    chosen = list(tasks)[: n or None]
    if chosen:
        agents.make(agent_name, chosen[0])
    rows = _finished(out, agent_name)
    todo = [task for task in chosen if task.task_id not in rows]
    if url is not None and todo:
        await _reach(url)
    gate, done = asyncio.Semaphore(jobs), len(chosen) - len(todo)
    progress(agent_name, done, len(chosen))
    with _journal(out) as file:

        async def one(task: Task) -> None:
            nonlocal done
            async with gate:
                row = await _row(tasks, task, agent_name, url, backend)
            rows[task.task_id] = row
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            done += 1
            progress(agent_name, done, len(chosen))

        try:
            async with asyncio.TaskGroup() as group:
                for task in todo:
                    group.create_task(one(task))
        except BaseExceptionGroup as errors:  # the first one says what is wrong; the others were cancelled for it
            raise errors.exceptions[0] from None
    summary = _summary(agent_name, [rows[task.task_id] for task in chosen], out)
    write_whole(out / "summary.json", (json.dumps({**asdict(summary), "ok": summary.ok}, indent=2) + "\n").encode())
    return summary


async def play(task: Task, agent: agents.Agent, player: Player) -> Observation:
    """One episode from reset to its end; an agent that gives up leaves it unfinished. Returns the last observation."""
    observation = await player.reset(task_id=task.task_id)
    while not observation.done:
        action = agent.act(observation.model_dump(mode="json"))
        if action is None:
            break
        observation = await player.step(action)
    return observation


async def _row(tasks: TaskSet, task: Task, agent_name: str, url: str | None, backend: str) -> dict[str, Any]:
    """Play one task and describe it; only what the machine did wrong is caught here."""
    try:
        async with _player(tasks, url, backend) as (player, finished):
            await play(task, agents.make(agent_name, task), player)
            episode = await finished()
        cause = ""
    except (Infrastructure, client.Infrastructure, client.Capacity, client.ConnectionLost) as error:
        episode, cause = _void(task), str(error)
    if episode.reward is None:
        episode.reward = Reward(valid=False, assurance=task.assurance)
    return {"agent": agent_name, "cause": cause, **episode.model_dump(mode="json")}


async def _reach(url: str) -> None:
    """Raises RunError and ConnectionLost once, rather than for each task, when the server is not there."""
    try:
        async with client.Client(url):
            pass
    except ValueError as error:
        raise RunError(str(error)) from None


@asynccontextmanager
async def _player(tasks: TaskSet, url: str | None, backend: str) -> AsyncIterator[tuple[Player, Any]]:
    """A session and a way to its finished episode."""
    if url is not None:
        async with client.Client(url) as remote:
            yield remote, remote.episode
        return
    session = CodingSession(tasks, backend=backend)

    async def finished() -> Episode:
        return session.episode()

    try:
        yield session, finished
    finally:
        await session.close()


def _void(task: Task) -> Episode:
    return Episode(episode_id="", task_id=task.task_id, prompt=task.problem_statement, reward=Reward(valid=False))


def _journal(out: Path) -> IO[str]:
    """``out/episodes.jsonl``, to append to. Raises RunError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        return (out / "episodes.jsonl").open("a", encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write to {out}: {error.strerror}; choose another --out") from error


def _finished(out: Path, agent_name: str) -> dict[str, dict[str, Any]]:
    """Valid episodes of an earlier run, by task. A last line that was cut off is dropped from the file.

    Raises RunError for a line that is no episode.
    """
    file = out / "episodes.jsonl"
    rows: dict[str, dict[str, Any]] = {}
    if not file.is_file():
        return rows
    whole = b"".join(line + b"\n" for line in file.read_bytes().split(b"\n")[:-1])
    if whole != file.read_bytes():
        file.write_bytes(whole)
    for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            row = json.loads(line)
            if row["agent"] == agent_name and row["reward"]["valid"]:
                rows[row["task_id"]] = row
        except (ValueError, KeyError, TypeError):
            raise RunError(f"{file}:{number} is no episode: remove the line, or choose another --out") from None
    return rows


def _summary(agent_name: str, rows: list[dict[str, Any]], out: Path) -> Summary:
    valid = [row for row in rows if row["reward"]["valid"]]
    values = [row["reward"]["value"] for row in valid]
    return Summary(
        agent=agent_name,
        episodes=len(rows),
        valid=len(valid),
        reward=sum(values) / len(values) if values else None,
        solved=sum(value == 1.0 for value in values),
        ends=dict(sorted(Counter(row["end"] or "none" for row in rows).items())),
        failures={row["task_id"]: row["cause"] or "not graded" for row in rows if not row["reward"]["valid"]},
        sandbox=sorted({row["sandbox"]["backend"] for row in rows if row["sandbox"]}),
        out=str(out),
    )
