"""Batcher of turns: turns that many rollouts ask for at the same time are sampled in one batch.

| | a batch is sampled when | use it where |
|---|---|---|
| lockstep (``patience=None``) | every playing rollout waits for a turn | the samples depend on the batch |
| free-running | that, or the first request has waited long enough | every request is sampled on its own |

In lockstep the batches do not depend on how long tools take, so a seeded sampler samples the same in a resumed run. The
price is that all rollouts wait for the slowest tool of every turn. Free-running removes that wait and that promise.
"""

from __future__ import annotations

import asyncio
import time
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


LEAST_WAIT_S = 0.02
"""Time in which the answers that arrived together become requests."""


class Batcher:
    """Collects requests until every playing rollout waits for one, then samples them together.

    Rollouts wait for their tools for different times. A batch is sampled when no other rollout can join it, or when
    ``largest`` requests wait. Its order is the order in which the rollouts began, not the order of their requests, so
    the speed of tools changes nothing.

    With ``patience`` a batch is also sampled when its first request has waited for ``patience`` times as long as the
    last batch took. With 1, waiting costs at most as much as sampling once more would (the rule of the ski rental
    problem, Karlin et al. 1988). Then the speed of tools decides which requests are sampled together.
    """

    def __init__(self, generate: Generate, *, largest: int = 1 << 16, patience: float | None = None) -> None:
        self._generate = generate
        self._largest = largest
        self._patience = patience
        self._last_s = 0.0
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
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sample] = loop.create_future()
        request = _Request(_ROLLOUT.get(), list(ids), room, answer)
        self._waiting.append(request)
        loop.call_soon(self._send)  # after all rollouts that are about to ask
        if self._patience is not None:
            loop.call_later(max(LEAST_WAIT_S, self._patience * self._last_s), self._send_late, request)
        try:
            return await answer
        except asyncio.CancelledError:
            if request in self._waiting:
                self._waiting.remove(request)
            raise

    def _send(self) -> None:
        while self._waiting and len(self._waiting) >= min(max(self._playing, 1), self._largest):
            self._send_batch()

    def _send_late(self, request: _Request) -> None:
        """Sample the batch of a request that has waited long enough."""
        while request in self._waiting:
            self._send_batch()

    def _send_batch(self) -> None:
        batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
        start = time.monotonic()
        self._answer(sorted(batch, key=lambda request: request.rollout))
        self._last_s = time.monotonic() - start

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
