"""Pool of sessions on one server, and the rollouts that share it: what happens when a session or the server fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from ...client import Client
from ...errors import ConnectionLost, ServerFull, ServerInfrastructureError
from .batcher import Batcher
from .rollout import Chat, Rollout, rollout

PAUSE_S = 1.0
"""Pause between two attempts to reach a server that is restarting."""


@dataclass(frozen=True)
class Limits:
    """Length limits of an episode, in ids."""

    max_ids: int = 32_768
    """Length of the whole rollout, its prompt included."""
    max_turn_ids: int = 4096
    """Length of one turn."""


class SessionPool:
    """Open sessions on one server, checked out to one rollout at a time and opened when more are needed."""

    def __init__(self, url: str, *, patience_s: float = 60.0) -> None:
        self.url, self._patience_s = url, patience_s
        self._idle: list[Client] = []
        self._checked_out = 0
        self._returned = asyncio.Event()

    @asynccontextmanager
    async def checkout(self, *, fresh: bool = False) -> AsyncIterator[Client]:
        """Yield a connected session; close it if its rollout fails. Raise ConnectionLost.

        ``fresh``: open a new session, and close the idle ones, which are lost too. This waits up to ``patience_s`` for
        a server that is restarting.
        """
        self._checked_out += 1
        try:
            if fresh:
                await self.close()
            client = self._idle.pop() if self._idle else await self._connect(self._patience_s if fresh else 0.0)
            try:
                yield client
            except BaseException:
                await client.close()
                raise
            self._idle.append(client)
        finally:
            self._checked_out -= 1
            self._returned.set()

    async def _connect(self, patience_s: float) -> Client:
        clock = asyncio.get_running_loop().time
        deadline = clock() + patience_s
        while True:
            try:
                return await Client(self.url).connect()
            except ConnectionLost:
                if clock() >= deadline:
                    raise
            await asyncio.sleep(PAUSE_S)

    async def wait_for_return(self) -> bool:
        """Wait until a session is idle; the next ``checkout`` gets it. Return False when none is checked out."""
        while not self._idle:
            if not self._checked_out:
                return False
            self._returned.clear()
            await self._returned.wait()
        return True

    async def close(self) -> None:
        """Close every idle session."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(client.close() for client in idle))


async def play(
    tasks: Sequence[Mapping[str, Any]],
    chat: Chat,
    batcher: Batcher,
    sessions: SessionPool,
    limits: Limits | None = None,
    *,
    system: str = "",
) -> list[Rollout]:
    """Play one episode of each task and return the rollouts in the order of the tasks.

    The tools of different rollouts run at the same time. Failures are handled as follows:

    - A lost session, as when the server restarts: one more attempt in a fresh session.
    - A machine that fails before the first turn: one more attempt.
    - A full server: the rollout waits until another one returns its session.

    Raise ConnectionLost or ServerInfrastructureError when the second attempt fails too, ServerFull when there is no
    session to wait for, and ServerError for what else the server refuses. No rollout is running after an exception.
    """
    limits = limits or Limits()
    max_ids, max_turn_ids = limits.max_ids, limits.max_turn_ids

    async def attempt(task: Mapping[str, Any], *, fresh: bool = False) -> Rollout:
        async with sessions.checkout(fresh=fresh) as client:
            return await rollout(task, chat, client, system=system, max_ids=max_ids, max_turn_ids=max_turn_ids)

    async def attempt_twice(task: Mapping[str, Any]) -> Rollout:
        try:
            return await attempt(task)
        except ConnectionLost:
            return await attempt(task, fresh=True)
        except ServerInfrastructureError:
            return await attempt(task)

    async def play_one(task: Mapping[str, Any]) -> Rollout:
        with batcher.playing():
            while True:
                try:
                    return await attempt_twice(task)
                except ServerFull:
                    with batcher.paused():
                        if not await sessions.wait_for_return():
                            raise

    running = [asyncio.ensure_future(play_one(task)) for task in tasks]
    try:
        return list(await asyncio.gather(*running))
    finally:
        for episode in running:
            episode.cancel()
        await asyncio.gather(*running, return_exceptions=True)
