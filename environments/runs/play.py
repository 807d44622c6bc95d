"""Play episodes with an agent, in this process or on a server, and record them.

``OUT/episodes.jsonl`` gets one line per episode when it ends, so that an interrupted run can be resumed;
``OUT/played_tasks.jsonl`` says what kind of tasks they play; ``OUT/summary.json`` is written at the end.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from ... import client
from ...errors import (
    BudgetSpent,
    ConnectionLost,
    EndpointFailed,
    InfrastructureError,
    RunError,
    ServerFull,
    ServerInfrastructureError,
    UnknownName,
    UnwritableRow,
)
from ...llm import LLM, shown
from ...models import IMPOSSIBLE, RENAMED_FROM, Episode, Observation, Reward, State, Task
from ...registry import did_you_mean
from .. import ENVIRONMENTS, agents
from ..agents.openai import ModelOptions
from ..base import BaseSession
from ..faults.schedule import read_schedule
from ..reset_args import ANNOTATE
from ..snapshots.store.cache import write_whole
from ..tasks.task_set import Tasks
from .parallel import at_once
from .played_tasks import write_played_tasks
from .reader import Progress
from .scores import Summary, summarise
from .writer import Journal, Key


class Player(Protocol):
    """The side of an episode that an agent plays with: a session in this process, or a client of a server."""

    @property
    def reset(self) -> Callable[..., Coroutine[Any, Any, Observation]]:
        """Start an episode."""
        ...

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Play one turn."""
        ...

    def state(self) -> State | Awaitable[State]:
        """Return the state of the episode, which no agent sees."""
        ...


Opened = tuple[Player, Callable[[], Awaitable[Episode]]]
"""A player, and a function that returns its episode as far as it has been played."""
Players = Callable[[Task], AbstractAsyncContextManager[Opened]]
"""Opens a player for one episode of a task."""


@dataclass(frozen=True)
class _Run:
    """Settings that every episode of a run shares."""

    agent: str
    settings: dict[str, Any]
    """What a resumed run must repeat."""
    open_player: Players
    reset: dict[str, Any] = field(default_factory=dict)
    llm: LLM | None = None
    tool_format: str = "native"

    def make_agent(self, task: Task, sample: int) -> agents.Agent:
        """Return the agent for one episode."""
        return agents.make(self.agent, task, llm=self.llm, tool_format=self.tool_format, seed=sample)


async def run_episodes(
    tasks: Tasks,
    agent_name: str,
    *,
    url: str | None = None,
    jobs: int = 1,
    out: Path,
    n: int = 1,
    limit: int | None = None,
    backend: str = "auto",
    annotate: str = "state",
    faults: str | None = None,
    model: ModelOptions = ModelOptions(),
    players: Players | None = None,
    progress: Progress = lambda phase, done, total: None,
) -> Summary:
    """Play the tasks (the first ``limit``) ``n`` times each, ``jobs`` episodes at a time.

    Episodes that ``out`` holds already are not played again. ``annotate`` and ``faults`` (see ``faults.schedule``;
    default: the server's, else none) are arguments of every reset. ``model`` is for an agent that asks one; ``players``
    replaces the sessions. An episode that the machine or the endpoint spoils is recorded ``valid: false`` with its
    cause, is played again by the next run, and counts in no mean.

    Raises, before anything is written, UnknownName for an unknown agent, RunError for an ``out`` with other content or
    settings, FaultsError, LLMError for a model that cannot be asked, ConnectionLost when no server answers; and
    EndpointRefused, later, when the endpoint answers nothing but refusals.
    """
    reset = _reset_arguments(annotate, faults)
    run = _prepare(tasks, agent_name, url, backend, reset, jobs, model, players)
    try:
        chosen = list(islice(tasks, limit))
        if chosen:
            run.make_agent(chosen[0], 0)
        journal = Journal(out, agent_name, run.settings)
        planned = [(task, sample) for sample in range(n) for task in chosen]
        todo = [(task, sample) for task, sample in planned if (task.task_id, sample) not in journal.done]
        if url is not None and todo and players is None:
            await _reach(url)
        with journal:
            try:
                rows = {**journal.done, **await _play_all(run, journal, todo, len(planned), jobs, progress)}
            finally:
                if todo and out.is_dir():
                    write_played_tasks(out, chosen)
    finally:
        if run.llm is not None:
            await run.llm.close()
    chosen_rows = [rows[task.task_id, sample] for task, sample in planned]
    twins = {task.task_id for task in chosen if task.features.get(IMPOSSIBLE)}
    renamed = {task.task_id: str(task.features[RENAMED_FROM]) for task in chosen if RENAMED_FROM in task.features}
    summary = summarise(agent_name, chosen_rows, journal.rows, n, str(out), twins, renamed)
    summary = replace(summary, settings=run.settings, earlier=len(planned) - len(todo))
    write_whole(out / "summary.json", (json.dumps({**asdict(summary), "ok": summary.ok}, indent=2) + "\n").encode())
    return summary


def _reset_arguments(annotate: str, faults: str | None) -> dict[str, Any]:
    """Return the arguments of every reset. Raises RunError and FaultsError."""
    if annotate not in ANNOTATE:
        raise RunError(f"--annotate: {did_you_mean('value', annotate, ANNOTATE)}")
    read_schedule(faults or "")
    return {"annotate": annotate} if faults is None else {"annotate": annotate, "faults": faults}


def _prepare(
    tasks: Tasks,
    agent_name: str,
    url: str | None,
    backend: str,
    reset: dict[str, Any],
    jobs: int,
    model: ModelOptions,
    players: Players | None,
) -> _Run:
    """Return the settings that every episode shares. Raises UnknownName and LLMError."""
    # Which sandbox a server plays in is the server's choice, and every row records it.
    settings: dict[str, Any] = {"url": url and shown(url).rstrip("/"), "sandbox": None if url else backend, **reset}
    opener = players or partial(player_for, tasks, url, backend)
    if not agents.asks_model(agent_name):
        return _Run(agent_name, settings, opener, reset)
    name = agent_name.partition(":")[2]
    llm = model.open(name, jobs)
    return _Run(agent_name, {**settings, **model.settings(name)}, opener, reset, llm, model.tool_format)


async def _play_all(
    run: _Run, journal: Journal, todo: list[tuple[Task, int]], total: int, jobs: int, progress: Progress
) -> dict[Key, dict[str, Any]]:
    """Play episodes and return their rows; each is written when its episode ends."""
    rows: dict[Key, dict[str, Any]] = {}

    async def one(item: tuple[Task, int]) -> None:
        task, sample = item
        about, episode = await _played(run, task, sample)
        try:
            row = journal.add(about, episode)
        except UnwritableRow as error:
            row = journal.add({**about, "cause": str(error)}, _void(task))
        rows[task.task_id, sample] = row

    await at_once(todo, jobs, one, lambda done: progress(run.agent, total - len(todo) + done, total))
    return rows


async def play(task: Task, agent: agents.Agent, player: Player, **arguments: Any) -> Observation:
    """Play one episode from reset (with further ``arguments``) to its end, and return the last observation.

    An agent that gives up leaves the episode unfinished.
    """
    observation = await player.reset(task_id=task.task_id, **arguments)
    while not observation.done:
        action = await agents.next_move(agent, observation.model_dump(mode="json"))
        if action is None:
            break
        observation = await player.step(action)
    return observation


async def _played(run: _Run, task: Task, sample: int) -> tuple[dict[str, Any], Episode]:
    """Play one task; return fields of its row and the episode. Failures of machine and endpoint void the episode."""
    agent, cause = run.make_agent(task, sample), ""
    try:
        if run.llm is not None:
            run.llm.meter.check()  # before a sandbox is opened for nothing
        async with run.open_player(task) as (player, finished):
            try:
                await play(task, agent, player, **run.reset)
            except (EndpointFailed, BudgetSpent) as error:
                cause = str(error)
            episode = await finished()
            if cause and episode.end is None:
                episode.end = "closed"
    except (InfrastructureError, ServerInfrastructureError, ServerFull, ConnectionLost, BudgetSpent) as error:
        episode, cause = _void(task), str(error)
    if episode.reward is None:
        episode.reward = Reward(valid=False, assurance=task.assurance)
    about = {"agent": run.agent, "cause": cause, "sample": sample, "settings": run.settings}
    return {**about, "usage": dict(getattr(agent, "usage", {}))}, episode


async def _reach(url: str) -> None:
    """Raise RunError or ConnectionLost when the server does not answer, before any task is tried."""
    try:
        async with client.Client(url):
            pass
    except ValueError as error:
        raise RunError(str(error)) from None


@asynccontextmanager
async def player_for(tasks: Tasks, url: str | None, backend: str, task: Task) -> AsyncIterator[Opened]:
    """Open a session of the task's environment, or of the server at ``url``. Raises UnknownName, ConnectionLost."""
    if url is not None:
        async with client.Client(url) as remote:
            yield remote, remote.episode
        return
    environment: type[BaseSession] = ENVIRONMENTS.load(task.environment)
    session = environment.open(tasks, backend=backend)

    async def finished() -> Episode:
        return session.episode()

    try:
        yield session, finished
    finally:
        await session.close()


def made_tasks() -> list[Tasks]:
    """Return the tasks of every environment that makes its own."""
    environments: list[type[BaseSession]] = [ENVIRONMENTS.load(name) for name in ENVIRONMENTS.names()]
    return [environment.tasks() for environment in environments if environment.makes_tasks]


def holds(tasks: Tasks, task_id: str) -> bool:
    """Return whether a task set holds a task with this id."""
    try:
        tasks.by_id(task_id)
    except UnknownName:
        return False
    return True


def _void(task: Task) -> Episode:
    return Episode(episode_id="", task_id=task.task_id, prompt=task.problem_statement, reward=Reward(valid=False))
