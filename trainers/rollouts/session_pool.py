"""Many rollouts at once: sessions that are used again, and what happens when one breaks."""

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
"""Between two tries to reach a server that is started again."""


@dataclass(frozen=True)
class Limits:
    """In ids: of a whole rollout, and of one turn."""

    max_ids: int = 32_768
    max_turn_ids: int = 4096


class Sessions:
    """Open sessions on one server, lent to one rollout at a time and opened as more are wanted."""

    def __init__(self, url: str, *, patience_s: float = 60.0) -> None:
        self.url, self._patience_s = url, patience_s
        self._idle: list[Client] = []
        self._lent = 0
        self._ended = asyncio.Event()

    @asynccontextmanager
    async def one(self, *, anew: bool = False) -> AsyncIterator[Client]:
        """A connected session; one whose rollout failed is closed, not used again. Raises ConnectionLost.

        ``anew``: none that was open before, and those that are not lent are closed: they are lost too. A server that
        is started again is waited for, up to ``patience_s``.
        """
        self._lent += 1
        try:
            if anew:
                await self.close()
            client = self._idle.pop() if self._idle else await self._connected(self._patience_s if anew else 0.0)
            try:
                yield client
            except BaseException:
                await client.close()
                raise
            self._idle.append(client)
        finally:
            self._lent -= 1
            self._ended.set()

    async def _connected(self, patience_s: float) -> Client:
        clock = asyncio.get_running_loop().time
        until = clock() + patience_s
        while True:
            try:
                return await Client(self.url).connect()
            except ConnectionLost:
                if clock() >= until:
                    raise
            await asyncio.sleep(PAUSE_S)

    async def back(self) -> bool:
        """Wait until one that is lent comes back; False when none is lent any more. The next ``one`` is that one."""
        while not self._idle:
            if not self._lent:
                return False
            self._ended.clear()
            await self._ended.wait()
        return True

    async def close(self) -> None:
        """End every session that is not lent."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(client.close() for client in idle))


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

    A session that is lost, as when the server starts again, costs its rollout one new try in a fresh session, and a
    machine that fails before the first turn one new try. Raises ConnectionLost or ServerInfrastructureError when that
    fails too.
    On a server that is full a rollout waits until a session of another one comes back. Raises ServerFull when there is
    none, and ServerError for what else the server refuses. Whatever it raises, no rollout is under way any more.
    """
    given = limits or Limits()

    async def once(task: Mapping[str, Any], *, anew: bool = False) -> Rollout:
        async with sessions.one(anew=anew) as client:
            return await rollout(
                task, chat, client, system=system, max_ids=given.max_ids, max_turn_ids=given.max_turn_ids
            )

    async def twice(task: Mapping[str, Any]) -> Rollout:
        try:
            return await once(task)
        except ConnectionLost:
            return await once(task, anew=True)
        except ServerInfrastructureError:
            return await once(task)

    async def one(task: Mapping[str, Any]) -> Rollout:
        with batcher.playing():
            while True:
                try:
                    return await twice(task)
                except ServerFull:
                    with batcher.aside():
                        if not await sessions.back():
                            raise

    under_way = [asyncio.ensure_future(one(task)) for task in tasks]
    try:
        return list(await asyncio.gather(*under_way))
    finally:
        for each in under_way:
            each.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
