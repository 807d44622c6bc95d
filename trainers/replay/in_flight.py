"""Turns in flight: how many turns are asked about at the same time, and what keeps the result the same.

A replay gives the same pairs, byte for byte, however many turns are in flight:

- Turn n is decided with what the turns before ``learned_turns(n)`` taught, whether or not later ones are finished.
- Turns with the same question wait for each other, so recorded answers to it are assigned in the order of the turns.
- A turn runs beside others only if the budget has room for the most that all of them may cost. Otherwise it waits until
  they are finished, so the last turns before the budget is spent are those that one turn at a time would reach.

Three things are outside this promise: an endpoint whose answers depend on the order of requests, attempts that fail (an
attempt without an answer is charged, a refused key drops a teacher at once), and a budget that is spent while
``value.follow`` is used, since what a continuation costs is not known in advance. The budget itself always holds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ...llm.budget import Cost
from .turns.prefixes import State

MOST_IN_FLIGHT = 32
"""Largest number of turns in flight, and of turns whose outcome a decision does not wait for."""
DEFAULT_IN_FLIGHT = 8


def learned_turns(number: int) -> int:
    """Return how many turns, from the first, teach what turn ``number`` (from 0) is decided with.

    It does not wait for the last quarter of the turns before it, at most 32 of them.
    """
    return number - min(number // 4, MOST_IN_FLIGHT)


def question_key(state: State, *, follows: bool) -> str:
    """Return a key that states with the same question share.

    ``follows``: continuations are played as well, and may ask the question of any state with the same first messages.
    """
    representative = State(state.episode, 0, state.system) if follows else state
    text = json.dumps([representative.messages(), representative.plain_tools()], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(eq=False)
class _Running:
    key: str
    bound: Cost
    task: asyncio.Task[None]


class InFlight:
    """Turns that are being asked about, at most ``most``; ``fits`` says whether the budget has room for a cost."""

    def __init__(self, most: int, fits: Callable[[Cost], bool]) -> None:
        self._most, self._fits = most, fits
        self._running: list[_Running] = []
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def admit(self, key: str, bound: Cost) -> None:
        """Wait until a turn with this key, which may cost at most ``bound``, may run. Raises the errors of turns."""
        while self._running and not self._may_run(key, bound):
            await asyncio.wait([one.task for one in self._running], return_when=asyncio.FIRST_COMPLETED)
            self._forget_finished()

    def start(self, number: int, key: str, bound: Cost, work: Coroutine[Any, Any, None]) -> None:
        """Start a turn that was admitted."""
        self._tasks[number] = asyncio.ensure_future(work)
        self._running.append(_Running(key, bound, self._tasks[number]))

    async def finish(self, number: int) -> None:
        """Wait until a turn is finished; at once if it was never started. Raises its error."""
        if (task := self._tasks.pop(number, None)) is not None:
            await task

    async def drain(self) -> None:
        """Wait until no turn is running: what a running one asked for is paid for, and recorded for the next start."""
        await asyncio.gather(*(one.task for one in self._running), return_exceptions=True)

    async def close(self) -> None:
        """Cancel the turns that are still running, and wait until they have ended. Idempotent."""
        tasks = {*self._tasks.values(), *(one.task for one in self._running)}
        self._running, self._tasks = [], {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _may_run(self, key: str, bound: Cost) -> bool:
        if len(self._running) >= self._most or any(one.key == key for one in self._running):
            return False
        tokens, usd = (sum(column) for column in zip(bound, *(one.bound for one in self._running), strict=True))
        return self._fits((tokens, usd))

    def _forget_finished(self) -> None:
        finished = [one for one in self._running if one.task.done()]
        self._running = [one for one in self._running if not one.task.done()]
        for one in finished:
            one.task.result()
