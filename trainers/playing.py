"""Many rollouts at once: sessions that are used again, and what happens when one breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from ..client import Client, ConnectionLost, Infrastructure
from .rollouts import Chat, Rollout, rollout
from .sampling import Batcher


@dataclass(frozen=True)
class Limits:
    """In ids: of a whole rollout, and of one turn."""

    max_ids: int = 32_768
    max_turn_ids: int = 4096


class Sessions:
    """Open sessions on one server, lent to one rollout at a time and opened as more are wanted."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._idle: list[Client] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Client]:
        """A connected session; one whose rollout failed is closed, not used again. Raises ConnectionLost."""
        client = self._idle.pop() if self._idle else await Client(self.url).connect()
        try:
            yield client
        except BaseException:
            await client.close()
            raise
        self._idle.append(client)

    async def close(self) -> None:
        """End every session that is not lent."""
        idle, self._idle = self._idle, []
        for client in idle:
            await client.close()


async def play(
    tasks: Sequence[Mapping[str, Any]],
    chat: Chat,
    batcher: Batcher,
    sessions: Sessions,
    limits: Limits | None = None,
    *,
    system: str = "",
) -> list[Rollout]:
    """One rollout of each task, in their order. Tools of different rollouts run at the same time.

    A session that is lost, as when the server starts again, costs its rollout one new try in a fresh session, and so
    does a machine that fails before the first turn. Raises ConnectionLost or Infrastructure when that fails too, and
    ServerError for what the server refuses.
    """
    given = limits or Limits()

    async def once(task: Mapping[str, Any]) -> Rollout:
        async with sessions.one() as client:
            return await rollout(
                task, chat, client, system=system, max_ids=given.max_ids, max_turn_ids=given.max_turn_ids
            )

    async def one(task: Mapping[str, Any]) -> Rollout:
        with batcher.playing():
            try:
                return await once(task)
            except (ConnectionLost, Infrastructure):
                return await once(task)

    return list(await asyncio.gather(*(one(task) for task in tasks)))
