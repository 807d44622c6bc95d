"""Runs that serve several candidates of one Snapshot, which are judged side by side.

Starting a sandbox costs far more than a trial in it. Each candidate is judged by its own coroutine, and only one of
them works at a time. One that needs a run waits; when all of them wait or have ended, one run serves them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from .warm_suite import Trial, TrialResult, WarmSuite

Item = TypeVar("Item")
Served = TypeVar("Served", contravariant=True)
Answer = TypeVar("Answer")
Result = TypeVar("Result")


class BatchRunner(Protocol[Served, Answer]):
    """A source of answers that costs little more for many items than for one."""

    async def run(self, items: Sequence[Served], /) -> list[Answer]:
        """Return the answer to each item."""


Waiting = tuple[BatchRunner[Any, Any], list[Any], "asyncio.Future[list[Any]]"]


@dataclass
class WarmBatch:
    """Collects what the coroutines of ``together`` ask for; outside of it, each question is answered at once.

    The state is who works and who waits.
    """

    suite: WarmSuite  # makes the trials
    _turn: asyncio.Lock | None = field(default=None, repr=False)
    _working: int = field(default=0, repr=False)
    _waiting: list[Waiting] = field(default_factory=list, repr=False)

    async def together(self, work: Sequence[Coroutine[Any, Any, Result]]) -> list[Result | BaseException]:
        """Return the result of each coroutine, or its exception."""
        self._turn, self._working, self._waiting = asyncio.Lock(), len(work), []
        try:
            return await asyncio.gather(*(self._one(item) for item in work), return_exceptions=True)
        finally:
            self._turn = None

    async def run(self, trials: Sequence[Trial]) -> list[TrialResult]:
        """Return the result of each trial. Raises SandboxError and OutOfTime, as the suite does."""
        return await self.ask(self.suite, trials)

    async def ask(self, runner: BatchRunner[Item, Answer], items: Sequence[Item]) -> list[Answer]:
        """Return the runner's answer to each item; it gets those of all coroutines together."""
        if self._turn is None or not items:
            return await runner.run(items)
        future: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting.append((runner, list(items), future))
        self._turn.release()
        try:
            await self._serve_if_all_wait()
            return await future
        finally:
            await self._turn.acquire()

    async def _one(self, work: Coroutine[Any, Any, Result]) -> Result:
        assert self._turn is not None
        async with self._turn:
            try:
                return await work
            finally:
                self._working -= 1
                await self._serve_if_all_wait()

    async def _serve_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self._working:
            return
        served, self._waiting = self._waiting, []
        try:
            for runner in {id(waiting[0]): waiting[0] for waiting in served}.values():
                await _serve(runner, [waiting for waiting in served if waiting[0] is runner])
        except BaseException as error:
            for _, _, future in served:
                if not future.done():
                    future.set_exception(error)
            raise


async def _serve(runner: BatchRunner[Any, Any], served: Sequence[Waiting]) -> None:
    """Give each that waits its answers, or the error."""
    try:
        results = await runner.run([item for _, items, _ in served for item in items])
    except Exception as error:  # noqa: BLE001  each that waits raises it
        for _, _, future in served:
            future.set_exception(error)
        return
    start = 0
    for _, items, future in served:
        future.set_result(results[start : start + len(items)])
        start += len(items)
