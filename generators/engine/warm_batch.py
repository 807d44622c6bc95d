"""Trials of several candidates that are judged side by side, made together in one warm run.

Starting a warm run costs far more than a trial. Each candidate is judged by its own coroutine, and only one of them
works at a time. One that needs trials waits; when all of them wait or have ended, one run serves them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .warm_suite import Trial, TrialResult, WarmSuite

Result = TypeVar("Result")
Waiting = tuple[list[Trial], "asyncio.Future[list[TrialResult]]"]


@dataclass
class WarmBatch:
    """Collects the trials of coroutines that ``together`` runs; outside of it, trials are made at once.

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
        if self._turn is None or not trials:
            return await self.suite.run(trials)
        future: asyncio.Future[list[TrialResult]] = asyncio.get_running_loop().create_future()
        self._waiting.append((list(trials), future))
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
            results = await self.suite.run([trial for trials, _ in served for trial in trials])
        except BaseException as error:
            for _, future in served:
                future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        start = 0
        for trials, future in served:
            future.set_result(results[start : start + len(trials)])
            start += len(trials)
