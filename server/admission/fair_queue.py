"""Fair queue: a number of slots, and waiting callers that are served client by client."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairQueue:
    """Slots of one event loop for callers of several clients.

    A free slot goes to the clients in turn, and within a client to the caller that has waited longest: a client with
    many sessions delays the next caller of another client by one slot at most. No slot is free while a caller waits.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.running = 0
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """Return the number of callers that wait."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def slot(self, client: str) -> AsyncIterator[None]:
        """Hold a slot for an ``async with`` block; wait for one when none is free."""
        if self.running < self.slots:
            self.running += 1
        else:
            await self._wait(client)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, client: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(client, turn)
            else:  # the slot was granted in the moment in which the caller was cancelled
                self._pass_on()
            raise

    def _remove(self, client: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(client)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[client]

    def _pass_on(self) -> None:
        """Give the slot to the next caller of the next client, or free it."""
        while self._waiting:
            client, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[client] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1
