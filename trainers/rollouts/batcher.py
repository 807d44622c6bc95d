"""Turns that many rollouts ask for at the same time, sampled in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from .rollout import Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

Generate = Callable[[list[list[int]], list[int]], list[Sample]]
"""Prompts as ids, and the room that each turn has; returns a sample for each, in order."""


_NUMBER: ContextVar[int] = ContextVar("number", default=0)
"""Of the rollout that this code runs for."""


class Batcher:
    """Gathers requests until every rollout that is under way waits for one, then samples them together.

    Rollouts wait on tools for different times; a batch goes out when nobody else can join it, or when ``largest`` do.
    Its order is that in which the rollouts began, not that of their requests: how fast tools answer changes nothing.
    ``generate`` runs where the event loop runs, or in a ``thread`` of its own, so that other rollouts go on meanwhile.
    """

    def __init__(self, generate: Generate, *, largest: int = 1 << 16, thread: bool = False) -> None:
        self._generate = generate
        self._largest = largest
        self._thread = thread
        self._under_way = 0
        self._begun = 0
        self._waiting: list[_Request] = []
        self._busy = asyncio.Lock()

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Around each rollout: who is under way may still ask for a turn."""
        loop = asyncio.get_running_loop()
        self._under_way += 1
        self._begun += 1
        _NUMBER.set(self._begun)
        try:
            yield
        finally:
            self._under_way -= 1
            loop.call_soon(self._send)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Around what a rollout under way waits for the others to do: no batch waits for its turn meanwhile."""
        self._under_way -= 1
        asyncio.get_running_loop().call_soon(self._send)
        try:
            yield
        finally:
            self._under_way += 1

    async def sample(self, ids: Sequence[int], room: int) -> Sample:
        """One turn of at most ``room`` ids. Raises what ``generate`` raises, in every rollout of the batch."""
        answer: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        request = (_NUMBER.get(), list(ids), room, answer)
        self._waiting.append(request)
        asyncio.get_running_loop().call_soon(self._send)  # after everyone who is about to ask
        try:
            return await answer
        except asyncio.CancelledError:
            if request in self._waiting:
                self._waiting.remove(request)
            raise

    def _send(self) -> None:
        while self._waiting and len(self._waiting) >= min(max(self._under_way, 1), self._largest):
            batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
            batch.sort(key=lambda request: request[0])
            task = asyncio.ensure_future(self._run(batch))
            task.add_done_callback(_raise)

    async def _run(self, batch: list[_Request]) -> None:
        try:
            async with self._busy:
                prompts, rooms = [ids for _, ids, _, _ in batch], [room for _, _, room, _ in batch]
                if self._thread:
                    samples = await asyncio.to_thread(self._generate, prompts, rooms)
                else:
                    samples = self._generate(prompts, rooms)
            for (_, _, _, answer), sample in zip(batch, samples, strict=True):
                if not answer.done():
                    answer.set_result(sample)
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            for _, _, _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)


_Request = tuple[int, list[int], int, "asyncio.Future[Sample]"]


def _raise(task: asyncio.Future[None]) -> None:
    if not task.cancelled():
        task.result()
