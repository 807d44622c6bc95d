"""Session pool: lost sessions, failing machines, and servers that are full or restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from etude.errors import ConnectionLost, ServerError, ServerFull, ServerInfrastructureError
from etude.models import Observation, State
from etude.trainers.recipe.recipe import Environment
from etude.trainers.rollouts import session_pool
from etude.trainers.rollouts.batcher import Batcher
from etude.trainers.rollouts.local_server import local_server
from etude.trainers.rollouts.rollout import Rollout, Sample, Written
from etude.trainers.rollouts.session_pool import Limits, SessionPool, play


class FailingSession:
    """Pool with one session, whose resets fail as often as there are failures; then its episodes end at once."""

    def __init__(self, failures: list[Exception]) -> None:
        self.failures, self.resets = failures, 0

    @asynccontextmanager
    async def checkout(self, *, fresh: bool = False) -> AsyncIterator[FailingSession]:
        yield self

    async def reset(self, **task: Any) -> Observation:
        self.resets += 1
        if self.failures:
            raise self.failures.pop()
        return Observation(done=True, prompt="?")

    async def state(self) -> State:
        return State(task_id="a", episode_id="e")


class SilentChat:
    """Chat for episodes without turns."""

    def prompt(self, messages: Any, tools: Any) -> Written:
        return Written([1, 2], 1)


def play_one(sessions: Any) -> list[str]:
    chat: Any = SilentChat()
    return [
        done.task_id for done in asyncio.run(play([{"task_id": "a"}], chat, Batcher(lambda ids, rooms: []), sessions))
    ]


@pytest.mark.parametrize("failure", [ServerInfrastructureError, ConnectionLost])
def test_rollout_is_tried_twice_when_its_session_or_machine_fails_at_the_start(failure: type[Exception]) -> None:
    once, twice = FailingSession([failure("gone")]), FailingSession([failure("gone"), failure("gone")])
    assert (play_one(once), once.resets) == (["a"], 2)
    with pytest.raises(failure, match="gone"):
        play_one(twice)
    assert twice.resets == 2


class RestartingServer:
    """Client of a server that restarts: the third attempt to connect succeeds."""

    attempts = 0

    def __init__(self, url: str) -> None:
        pass

    async def connect(self) -> RestartingServer:
        type(self).attempts += 1
        if self.attempts < 3:
            raise ConnectionLost("connection refused")
        return self


@pytest.mark.parametrize(("fresh", "attempts"), [(True, 3), (False, -1)])
def test_checkout_waits_for_a_restarting_server_when_it_is_fresh(
    fresh: bool, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_pool, "Client", type("Client", (RestartingServer,), {}))
    monkeypatch.setattr(session_pool, "PAUSE_S", 0.0)

    async def attempts_made() -> int:
        try:
            async with SessionPool("").checkout(fresh=fresh) as client:
                return int(client.attempts)  # type: ignore[attr-defined]
        except ConnectionLost:
            return -1

    assert asyncio.run(attempts_made()) == attempts


# --- a server with few sessions, and one that restarts ----------------------------------------------------------


class Server:
    """Server with at most ``most`` sessions, whose episodes end with the second turn."""

    def __init__(self, most: int) -> None:
        self.most, self.refused, self.opened = most, 0, 0
        self.alive: set[Session] = set()
        self.broken = 0

    def client(self, url: str) -> Session:
        return Session(self)


class Session:
    """Client of that server. A full server refuses the first reset."""

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


class OneIdChat:
    """Chat that samples one id a turn and records the sizes of the batches."""

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
    server = Server(3)
    monkeypatch.setattr(session_pool, "Client", server.client)
    return server


async def play_episodes(number: int, sessions: SessionPool, chat: Any) -> list[str]:
    tasks = [{"task_id": f"t{task}"} for task in range(number)]
    rollouts: list[Rollout] = await asyncio.wait_for(play(tasks, chat, chat.batcher, sessions), 60)
    return [rollout.task_id for rollout in rollouts]


def test_rollouts_wait_for_a_session_when_the_server_is_full(server: Server) -> None:
    """Each is refused once: a waiting rollout asks for nothing meanwhile, and no batch waits for it."""
    chat = OneIdChat()
    assert asyncio.run(play_episodes(8, SessionPool(""), chat)) == [f"t{task}" for task in range(8)]
    assert (server.opened, server.refused) == (3, 5)
    assert sum(chat.sizes) == 16 and chat.sizes[0] == 3


def test_play_fails_when_other_clients_use_all_sessions(server: Server) -> None:
    server.most = 0
    with pytest.raises(ServerFull, match="0/0 sessions in use"):
        asyncio.run(play_episodes(4, SessionPool(""), OneIdChat()))
    assert server.refused == 4


def test_rollouts_use_idle_sessions_before_they_open_new_ones(server: Server) -> None:
    async def play_twice() -> None:
        sessions = SessionPool("")
        await play_episodes(2, sessions, OneIdChat())
        server.most = 2
        assert await play_episodes(5, sessions, OneIdChat()) == [f"t{task}" for task in range(5)]

    asyncio.run(play_twice())
    assert server.opened == 2


def test_stale_sessions_are_closed_after_a_restart(server: Server) -> None:
    """There are more of them than rollouts, so the second attempt could take another stale one."""

    async def play_over_restart() -> int:
        sessions = SessionPool("")
        await play_episodes(3, sessions, OneIdChat())
        server.alive.clear()
        assert await play_episodes(1, sessions, OneIdChat()) == ["t0"]
        return len(sessions._idle)

    assert asyncio.run(play_over_restart()) == 1
    assert (server.opened, len(server.alive)) == (4, 1)


def test_all_rollouts_finish_when_a_full_server_restarts(server: Server) -> None:
    async def play_over_restart() -> None:
        sessions, chat = SessionPool(""), OneIdChat()
        await play_episodes(3, sessions, chat)
        server.alive.clear()
        server.most = 2
        assert await play_episodes(6, sessions, chat) == [f"t{task}" for task in range(6)]

    asyncio.run(play_over_restart())
    assert server.opened == 5


def test_all_rollouts_finish_when_machines_fail_on_a_full_server(server: Server) -> None:
    server.broken = 2
    assert len(asyncio.run(play_episodes(7, SessionPool(""), OneIdChat()))) == 7


def test_other_rollouts_are_cancelled_and_their_sessions_closed_when_one_is_refused(server: Server) -> None:
    original = Session.reset

    async def reset(self: Session, task_id: str) -> Observation:
        if task_id == "t1":
            await asyncio.sleep(0)
            raise ServerError("no such task")
        return await original(self, task_id)

    async def remaining() -> tuple[int, int]:
        with pytest.raises(ServerError, match="no such task"):
            await play_episodes(3, SessionPool(""), OneIdChat())
        return len(server.alive), len(asyncio.all_tasks())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "reset", reset)
        assert asyncio.run(remaining()) == (0, 1)


def test_full_real_server_plays_all_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "2")
    with local_server(Environment(serve="drill")) as url:
        tasks = [{"task_id": f"drill-choose-{seed}-l1"} for seed in range(6)]

        async def play_all() -> list[Rollout]:
            sessions, chat = SessionPool(url), OneIdChat()
            policy: Any = chat
            try:
                return await asyncio.wait_for(play(tasks, policy, chat.batcher, sessions, Limits(6, 2)), 60)
            finally:
                await sessions.close()

        rollouts = asyncio.run(play_all())
    assert [rollout.task_id for rollout in rollouts] == [task["task_id"] for task in tasks]
    assert all(rollout.turns and rollout.reward.valid for rollout in rollouts)
