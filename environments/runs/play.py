"""Play episodes with an agent, here or on a server, and write down what happened.

``OUT/episodes.jsonl`` gets one line per finished episode as it finishes, so an interrupted run goes on where it
stopped; ``OUT/summary.json`` is written at the end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ... import client
from ...errors import (
    BudgetSpent,
    ConnectionLost,
    EndpointFailed,
    InfrastructureError,
    RunError,
    ServerFull,
    ServerInfrastructureError,
    UnwritableRow,
)
from ...llm import shown
from ...models import Episode, Observation, Reward, Task
from ...registry import did_you_mean
from ..agents import scripted as agents
from ..agents.openai import ModelOptions
from ..coding.session import CodingSession
from ..drill.session import DrillSession
from ..drill.tasks import DrillTasks
from ..faults.faulty_session import FaultySession
from ..faults.schedule import read_schedule
from ..reset_args import HOWS
from ..snapshots.store.cache import write_whole
from ..tasks.task_set import TaskSet
from .scores import Summary, summarise
from .writer import Journal, Key

if TYPE_CHECKING:
    from ...llm import LLM

Progress = Callable[[str, int, int], None]
Tasks = TaskSet | DrillTasks


class Player(Protocol):
    """What an agent plays against: a session in this process or a client of a server."""

    @property
    def reset(self) -> Callable[..., Coroutine[Any, Any, Observation]]: ...

    async def step(self, action: Mapping[str, Any]) -> Observation: ...


Opened = tuple[Player, Callable[[], Awaitable[Episode]]]
Players = Callable[[], AbstractAsyncContextManager[Opened]]
"""Opens a player for one episode, and gives a way to the episode as it then stands."""


@dataclass(frozen=True)
class _Run:
    """What every episode of a run shares."""

    agent: str
    settings: dict[str, Any]
    open_player: Players
    reset: dict[str, Any] = field(default_factory=dict)
    llm: LLM | None = None
    tool_format: str = "native"

    def make_agent(self, task: Task, sample: int) -> agents.Agent:
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
    """Play the tasks (the first ``limit``) ``n`` times each, ``jobs`` episodes at a time; what ``out`` holds is done.

    ``annotate`` and ``faults`` (see ``faults.schedule``; default: the server's, else none) are given to every reset.
    ``model`` is for an agent that asks one; ``players`` takes the place of a coding session or ``url``'s server. An
    episode that the machine or the endpoint spoils is recorded ``valid: false`` with its cause, played again by the
    next run, and counts in no mean. Raises, before anything is written, UnknownName for an agent that there is not,
    RunError for an ``out`` of other things or settings, FaultsError for faults that cannot be read, LLMError for a
    model that cannot be asked, and ConnectionLost when no server answers; and EndpointRefused, later, when the endpoint
    answers nothing but refusals.
    """
    given = _given(annotate, faults)
    run = _prepared(tasks, agent_name, url, backend, given, jobs, model, players)
    try:
        chosen = list(islice(tasks, limit))
        if chosen:
            run.make_agent(chosen[0], 0)
        journal = Journal(out, agent_name, run.settings)
        wanted = [(task, sample) for sample in range(n) for task in chosen]
        todo = [(task, sample) for task, sample in wanted if (task.task_id, sample) not in journal.done]
        if url is not None and todo and players is None:
            await _reach(url)
        with journal:
            rows = await _play_all(run, journal, todo, len(wanted), jobs, progress)
    finally:
        if run.llm is not None:
            await run.llm.close()
    found = {**journal.done, **rows}
    chosen_rows = [found[task.task_id, sample] for task, sample in wanted]
    summary = replace(summarise(agent_name, chosen_rows, journal.rows, n, str(out)), settings=run.settings)
    write_whole(out / "summary.json", (json.dumps({**asdict(summary), "ok": summary.ok}, indent=2) + "\n").encode())
    return summary


def _given(annotate: str, faults: str | None) -> dict[str, Any]:
    """What every reset is given. Raises RunError and FaultsError."""
    if annotate not in HOWS:
        raise RunError(f"--annotate: {did_you_mean('way', annotate, HOWS)}")
    read_schedule(faults or "")
    return {"annotate": annotate} if faults is None else {"annotate": annotate, "faults": faults}


def _prepared(
    tasks: Tasks,
    agent_name: str,
    url: str | None,
    backend: str,
    given: dict[str, Any],
    jobs: int,
    model: ModelOptions,
    players: Players | None,
) -> _Run:
    """Raises UnknownName and LLMError."""
    # Which sandbox a server plays in is the server's choice, and every row says which it was.
    settings: dict[str, Any] = {"url": url and shown(url).rstrip("/"), "sandbox": None if url else backend, **given}
    opener = players or (lambda: player_for(tasks, url, backend))
    if not agents.asks_model(agent_name):
        return _Run(agent_name, settings, opener, given)
    name = agent_name.partition(":")[2]
    llm = model.open(name, jobs)
    return _Run(agent_name, {**settings, **model.settings(name)}, opener, given, llm, model.tool_format)


async def _play_all(
    run: _Run, journal: Journal, todo: list[tuple[Task, int]], total: int, jobs: int, progress: Progress
) -> dict[Key, dict[str, Any]]:
    """Play what is to do; each row is written when its episode is over. The first unexpected error ends it."""
    gate, rows = asyncio.Semaphore(jobs), dict[Key, dict[str, Any]]()
    before = total - len(todo)
    progress(run.agent, before, total)

    async def one(task: Task, sample: int) -> None:
        async with gate:
            about, episode = await _played(run, task, sample)
        try:
            row = journal.add(about, episode)
        except UnwritableRow as error:
            row = journal.add({**about, "cause": str(error)}, _void(task))
        rows[task.task_id, sample] = row
        progress(run.agent, before + len(rows), total)

    try:
        async with asyncio.TaskGroup() as group:
            for task, sample in todo:
                group.create_task(one(task, sample))
    except BaseExceptionGroup as errors:  # the first one says what is wrong; the others were cancelled for it
        raise errors.exceptions[0] from None
    return rows


async def play(task: Task, agent: agents.Agent, player: Player, **given: Any) -> Observation:
    """One episode from reset (which is ``given`` more) to its end; an agent that gives up leaves it unfinished.

    Returns the last observation.
    """
    observation = await player.reset(task_id=task.task_id, **given)
    while not observation.done:
        action = await agents.next_move(agent, observation.model_dump(mode="json"))
        if action is None:
            break
        observation = await player.step(action)
    return observation


async def _played(run: _Run, task: Task, sample: int) -> tuple[dict[str, Any], Episode]:
    """Play one task: what its row says about it, and the episode; only what machine or endpoint did wrong is caught."""
    agent, cause = run.make_agent(task, sample), ""
    try:
        if run.llm is not None:
            run.llm.meter.check()  # before a sandbox is opened for nothing
        async with run.open_player() as (player, finished):
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
    """Raises RunError and ConnectionLost once, rather than for each task, when the server is not there."""
    try:
        async with client.Client(url):
            pass
    except ValueError as error:
        raise RunError(str(error)) from None


@asynccontextmanager
async def player_for(tasks: Tasks, url: str | None, backend: str) -> AsyncIterator[Opened]:
    """A session of this process, or of the server at ``url``."""
    if url is not None:
        async with client.Client(url) as remote:
            yield remote, remote.episode
        return
    session = FaultySession(
        DrillSession(tasks) if isinstance(tasks, DrillTasks) else CodingSession(tasks, backend=backend)
    )

    async def finished() -> Episode:
        return session.episode()

    try:
        yield session, finished
    finally:
        await session.close()


def _void(task: Task) -> Episode:
    return Episode(episode_id="", task_id=task.task_id, prompt=task.problem_statement, reward=Reward(valid=False))
