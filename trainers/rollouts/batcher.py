"""Batcher of turns: turns that many rollouts ask for at the same time are sampled in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from .rollout import Sample

Generate = Callable[[list[list[int]], list[int]], list[Sample]]
"""Samples a turn after each prompt, given as ids, of at most its room; the samples are in the order of the prompts."""

_ROLLOUT: ContextVar[int] = ContextVar("rollout", default=0)
"""Number of the rollout that the current code runs for."""


@dataclass(eq=False)
class _Request:
    rollout: int
    ids: list[int]
    room: int
    answer: asyncio.Future[Sample]


class Batcher:
    """Collects requests until every playing rollout waits for one, then samples them together.

    Rollouts wait for their tools for different times. A batch is sampled when no other rollout can join it, or when
    ``largest`` requests wait. Its order is the order in which the rollouts began, not the order of their requests, so
    the speed of tools changes nothing.
    """

    def __init__(self, generate: Generate, *, largest: int = 1 << 16) -> None:
        self._generate = generate
        self._largest = largest
        self._playing = 0
        self._started = 0
        self._waiting: list[_Request] = []

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Mark a rollout as playing, which means that it may still ask for a turn."""
        loop = asyncio.get_running_loop()
        self._playing += 1
        self._started += 1
        _ROLLOUT.set(self._started)
        try:
            yield
        finally:
            self._playing -= 1
            loop.call_soon(self._send)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Mark a playing rollout as waiting for another one, so that no batch waits for its turn meanwhile."""
        self._playing -= 1
        asyncio.get_running_loop().call_soon(self._send)
        try:
            yield
        finally:
            self._playing += 1

    async def sample(self, ids: Sequence[int], room: int) -> Sample:
        """Return one turn of at most ``room`` ids. An error of ``generate`` is raised in every rollout of the batch."""
        answer: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        request = _Request(_ROLLOUT.get(), list(ids), room, answer)
        self._waiting.append(request)
        asyncio.get_running_loop().call_soon(self._send)  # after all rollouts that are about to ask
        try:
            return await answer
        except asyncio.CancelledError:
            if request in self._waiting:
                self._waiting.remove(request)
            raise

    def _send(self) -> None:
        while self._waiting and len(self._waiting) >= min(max(self._playing, 1), self._largest):
            batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
            self._answer(sorted(batch, key=lambda request: request.rollout))

    def _answer(self, batch: list[_Request]) -> None:
        try:
            samples = self._generate([request.ids for request in batch], [request.room for request in batch])
            for request, sample in zip(batch, samples, strict=True):
                if not request.answer.done():
                    request.answer.set_result(sample)
        except Exception as error:  # noqa: BLE001 - it is raised in every rollout that waits
            for request in batch:
                if not request.answer.done():
                    request.answer.set_exception(error)
