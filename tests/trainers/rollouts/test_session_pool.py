"""Sessions that break under a rollout, and what that costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from etude.errors import ConnectionLost, ServerError, ServerFull, ServerInfrastructureError
from etude.models import Observation, State
from etude.trainers.recipe.recipe import Environment
from etude.trainers.rollouts import session_pool as playing
from etude.trainers.rollouts.batcher import Batcher
from etude.trainers.rollouts.local_server import served
from etude.trainers.rollouts.rollout import Rollout, Sample, Written
from etude.trainers.rollouts.session_pool import Limits, Sessions, play


class Broken:
    """A session whose resets fail so many times, on behalf of all sessions; then its episodes are over at once."""

    def __init__(self, failures: list[Exception]) -> None:
        self.failures, self.resets = failures, 0

    @asynccontextmanager
    async def one(self, *, anew: bool = False) -> AsyncIterator[Broken]:
        yield self

    async def reset(self, **task: Any) -> Observation:
        self.resets += 1
        if self.failures:
            raise self.failures.pop()
        return Observation(done=True, prompt="?")

    async def state(self) -> State:
        return State(task_id="a", episode_id="e")


class Plain:
    def prompt(self, messages: Any, tools: Any) -> Written:
        return Written([1, 2], 1)


def played(sessions: Broken) -> list[str]:
    there: Any = sessions
    chat: Any = Plain()
    return [done.task_id for done in asyncio.run(play([{"task_id": "a"}], chat, Batcher(lambda ids, rooms: []), there))]


@pytest.mark.parametrize("failure", [ServerInfrastructureError, ConnectionLost])
def test_a_session_or_a_machine_that_fails_at_the_start_costs_one_new_try(failure: type[Exception]) -> None:
    once, twice = Broken([failure("gone")]), Broken([failure("gone"), failure("gone")])
    assert (played(once), once.resets) == (["a"], 2)
    with pytest.raises(failure, match="gone"):
        played(twice)
    assert twice.resets == 2


class Starting:
    """A server that is started again: it listens from the ``ready``-th time on that it is asked."""

    asked, ready = 0, 3

    def __init__(self, url: str) -> None:
        pass

    async def connect(self) -> Starting:
        type(self).asked += 1
        if self.asked < self.ready:
            raise ConnectionLost("nobody listens")
        return self


@pytest.mark.parametrize(("anew", "asked"), [(True, 3), (False, 1)])
def test_a_server_that_is_started_again_is_waited_for(anew: bool, asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "Client", type("Client", (Starting,), {}))
    monkeypatch.setattr(playing, "PAUSE_S", 0.0)

    async def lent() -> int:
        try:
            async with Sessions("").one(anew=anew) as client:
                return int(client.asked)  # type: ignore[attr-defined]
        except ConnectionLost:
            return -1

    assert asyncio.run(lent()) == (asked if anew else -1)


# --- a server with few sessions, and one that starts again ------------------------------------------------------


class Server:
    """Has ``most`` sessions. An episode is over with its second turn; ``refused`` and ``opened`` are counted."""

    def __init__(self, most: int) -> None:
        self.most, self.refused, self.opened = most, 0, 0
        self.alive: set[Session] = set()
        self.broken = 0

    def client(self, url: str) -> Session:
        return Session(self)


class Session:
    """What ``client.Client`` is to a rollout. A server that is full says so when it is first asked."""

    def __init__(self, server: Server) -> None:
        self.server, self.turns, self.task = server, 0, ""

    async def connect(self) -> Session:
        await asyncio.sleep(0)
        if len(self.server.alive) < self.server.most:
            self.server.alive.add(self)
            self.server.opened += 1
        return self

    async def reset(self, task_id: str) -> Observation:
        await asyncio.sleep(0)
        if self not in self.server.alive:
            if self.turns:
                raise ConnectionLost("the server closed the session")
            self.server.refused += 1
            raise ServerFull(f"{self.server.most}/{self.server.most} sessions in use")
        if self.server.broken:
            self.server.broken -= 1
            raise ServerInfrastructureError("infrastructure: no machine")
        self.task, self.turns = task_id, 0
        return Observation(prompt="?")

    async def step(self, action: Any) -> Observation:
        await asyncio.sleep(0)
        self.turns += 1
        return Observation(done=self.turns == 2)

    async def state(self) -> State:
        return State(task_id=self.task, episode_id="e")

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.server.alive.discard(self)


class Talks:
    """Says one id a turn, in batches whose sizes are kept."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.batcher = Batcher(self._generate)

    def _generate(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        self.sizes.append(len(prompts))
        return [Sample([3]) for _ in prompts]

    def prompt(self, messages: Any, tools: Any) -> Written:
        return Written([1, 2], 1)

    async def sample(self, ids: Any, room: int) -> Sample:
        return await self.batcher.sample(ids, room)

    def action(self, ids: Any) -> dict[str, Any]:
        return {"content": "a"}

    def reply(self, ids: Any, messages: Any) -> Written:
        return Written([1], 0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server(3)
    monkeypatch.setattr(playing, "Client", made.client)
    return made


async def episodes(number: int, sessions: Sessions, chat: Talks) -> list[str]:
    tasks = [{"task_id": f"t{task}"} for task in range(number)]
    there: Any = chat
    found: list[Rollout] = await asyncio.wait_for(play(tasks, there, chat.batcher, sessions), 60)
    return [rollout.task_id for rollout in found]


def test_on_a_full_server_rollouts_wait_for_those_that_play(server: Server) -> None:
    """Each is refused once: whoever waits asks for nothing meanwhile, and keeps no batch waiting."""
    chat = Talks()
    assert asyncio.run(episodes(8, Sessions(""), chat)) == [f"t{task}" for task in range(8)]
    assert (server.opened, server.refused) == (3, 5)
    assert sum(chat.sizes) == 16 and chat.sizes[0] == 3


def test_one_that_is_full_of_others_is_a_failure(server: Server) -> None:
    server.most = 0
    with pytest.raises(ServerFull, match="0/0 sessions in use"):
        asyncio.run(episodes(4, Sessions(""), Talks()))
    assert server.refused == 4


def test_idle_sessions_are_no_reason_to_be_refused(server: Server) -> None:
    async def twice() -> None:
        sessions = Sessions("")
        await episodes(2, sessions, Talks())
        server.most = 2
        assert await episodes(5, sessions, Talks()) == [f"t{task}" for task in range(5)]

    asyncio.run(twice())
    assert server.opened == 2


def test_after_a_restart_stale_sessions_are_forgotten(server: Server) -> None:
    """More of them than rollouts: the new try would take another one of those."""

    async def restarted() -> int:
        sessions = Sessions("")
        await episodes(3, sessions, Talks())
        server.alive.clear()
        assert await episodes(1, sessions, Talks()) == ["t0"]
        return len(sessions._idle)

    assert asyncio.run(restarted()) == 1
    assert (server.opened, len(server.alive)) == (4, 1)


def test_a_restart_of_a_full_server_fails_nobody(server: Server) -> None:
    async def restarted() -> None:
        sessions, chat = Sessions(""), Talks()
        await episodes(3, sessions, chat)
        server.alive.clear()
        server.most = 2
        assert await episodes(6, sessions, chat) == [f"t{task}" for task in range(6)]

    asyncio.run(restarted())
    assert server.opened == 5


def test_a_machine_that_fails_on_a_full_server_costs_a_new_try(server: Server) -> None:
    server.broken = 2
    assert len(asyncio.run(episodes(7, Sessions(""), Talks()))) == 7


def test_when_one_is_refused_the_others_end_and_their_sessions_too(server: Server) -> None:
    refuse = Session.reset

    async def reset(self: Session, task_id: str) -> Observation:
        if task_id == "t1":
            await asyncio.sleep(0)
            raise ServerError("no such task")
        return await refuse(self, task_id)

    async def refused() -> tuple[int, int]:
        with pytest.raises(ServerError, match="no such task"):
            await episodes(3, Sessions(""), Talks())
        return len(server.alive), len(asyncio.all_tasks())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "reset", reset)
        assert asyncio.run(refused()) == (0, 1)


def test_a_real_server_that_is_full_plays_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "2")
    with served(Environment(serve="drill")) as url:
        tasks = [{"task_id": f"drill-choose-{seed}-l1"} for seed in range(6)]

        async def all_of_them() -> list[Rollout]:
            sessions, chat = Sessions(url), Talks()
            there: Any = chat
            try:
                return await asyncio.wait_for(play(tasks, there, chat.batcher, sessions, Limits(6, 2)), 60)
            finally:
                await sessions.close()

        found = asyncio.run(all_of_them())
    assert [rollout.task_id for rollout in found] == [task["task_id"] for task in tasks]
    assert all(rollout.turns and rollout.reward.valid for rollout in found)
