"""Campaigns: every chosen exploit is played on every task of a set, or of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import islice

from ... import client
from ...errors import RunError, UnknownName
from ...models import PublicTask
from ...monitors.exploits import Exploit, Facts, corpus, exploit
from ..actions import Action, call, turn
from ..agents.scripted import solution
from ..runs.parallel import at_once
from ..runs.play import Opened, player_for
from ..runs.reader import Progress
from ..runs.unfinished import Unfinished
from ..tasks.task_set import Tasks
from .attempt import Attempt, attempt, attempt_of
from .facts import LIST_FILES, facts_from_listing, facts_of

Opener = Callable[[str], AbstractAsyncContextManager[Opened]]
"""Opens a player for one episode of the task with this id."""


@dataclass(frozen=True)
class Target:
    """A task to attack."""

    task_id: str
    facts: Facts
    solution: list[Action] | None = None
    """The turns that solve the task, for honest twins; None where only the server knows them."""


def chosen(names: str | None) -> list[Exploit]:
    """Return the exploits that a comma-separated list names; None means all. Raises UnknownName, also for none."""
    if names is None:
        return list(corpus().values())
    names_given = [name.strip() for name in names.split(",") if name.strip()]
    if not names_given:
        raise UnknownName("--only names no exploit; see `etude list exploits`, or leave it out to play all of them")
    return [exploit(name) for name in names_given]


def targets_of(tasks: Tasks, limit: int | None = None) -> list[Target]:
    """Return the tasks of a set that have source files. Raises RunError when there is none."""
    playable = (task for task in tasks if task.snapshot is not None and facts_of(task).targets)
    targets = [Target(task.task_id, facts_of(task), solution(task).actions) for task in islice(playable, limit)]
    return _some(targets, "the task set")


async def targets_at(url: str, limit: int | None = None) -> list[Target]:
    """Return the tasks of a server whose source files an agent can find; an episode of each is opened to look for them.

    Raises RunError when there is none and for an invalid address, ConnectionLost when nothing answers.
    """
    try:
        server = client.Client(url)
    except ValueError as error:
        raise RunError(str(error)) from None
    async with server:
        explored = [await _explore(server, task) for task in (await server.tasks())[:limit]]
    return _some([target for target in explored if target.facts.targets], "the server")


async def run(
    targets: Sequence[Target],
    exploits: Sequence[Exploit],
    opener: Opener,
    *,
    twins: bool = False,
    jobs: int = 1,
    progress: Progress = lambda phase, done, total: None,
    unfinished: Unfinished | None = None,
) -> list[Attempt]:
    """Play every exploit on every target, and with ``twins`` each honest twin as well, ``jobs`` episodes at a time.

    When the machine fails, the attempt has no score. Scored attempts are kept in ``unfinished``, and those that it has
    are not made again.
    """
    sides = (False, True) if twins else (False,)
    planned = [(target, one, twin) for target in targets for one in exploits for twin in sides]

    async def play_one(item: tuple[Target, Exploit, bool]) -> Attempt:
        target, one, twin = item
        name = f"{target.task_id} {one.id} {twin}"
        if unfinished is not None and name in unfinished.results:
            return attempt_of(unfinished.results[name])
        async with opener(target.task_id) as opened:
            played = await attempt(opened, target.task_id, one, target.facts, target.solution if twin else None)
        if unfinished is not None and not played.cause:
            unfinished.add(name, asdict(played))
        return played

    return await at_once(planned, jobs, play_one, lambda done: progress("redteam", done, len(planned)))


def sessions(tasks: Tasks, backend: str = "auto") -> Opener:
    """Return an opener of sessions in this process."""
    return lambda task_id: player_for(tasks, None, backend, tasks.by_id(task_id))


def connections(url: str) -> Opener:
    """Return an opener of sessions on a server."""

    @asynccontextmanager
    async def connect(task_id: str) -> AsyncIterator[Opened]:
        async with client.Client(url) as server:
            yield server, server.episode

    return connect


async def _explore(server: client.Client, task: PublicTask) -> Target:
    """Return a task of a server with the facts that its statement and a listing of its files give."""
    await server.reset(task_id=task.task_id)
    answer = await server.step(turn("", call("bash", command=LIST_FILES)))
    lines = answer.messages[0].content.splitlines()[1:] if answer.messages else []
    return Target(task.task_id, facts_from_listing(task, lines))


def _some(targets: list[Target], place: str) -> list[Target]:
    """Return the targets. Raises RunError when there is none."""
    if not targets:
        raise RunError(f"{place} has no task with source files to attack; generate some with `etude generate`")
    return targets
