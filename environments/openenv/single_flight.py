"""One call at a time, and how to cut it off."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any


class CutOff(Exception):
    """The call was cut off by ``Door.cut``."""


class Door:
    """``async with`` lets one call at a time in, which runs in its caller's own task: a task of its own costs as much
    as a short call.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._inside: asyncio.Task[Any] | None = None
        self._cut = False

    @property
    def busy(self) -> bool:
        return self._inside is not None

    @property
    def cutting(self) -> bool:
        """Whether the cancellation that the call inside sees is that of ``cut`` alone."""
        return self._cut and self._inside is not None and self._inside.cancelling() == 1

    async def cut(self) -> None:
        """Cancel the call inside, which leaves with CutOff, and wait until it has left. Let nobody else in then."""
        if self._inside is not None:
            self._cut = True
            self._inside.cancel()
            async with self._lock:
                pass

    async def __aenter__(self) -> None:
        await self._lock.acquire()
        self._inside = asyncio.current_task()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        cut, self._cut = self.cutting, False
        task, self._inside = self._inside, None
        self._lock.release()
        if cut and task is not None:
            task.uncancel()
            if isinstance(error, asyncio.CancelledError):
                raise CutOff from None
