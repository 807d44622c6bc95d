"""Single flight: one call of a session at a time, which another task may cut off."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any


class CutOff(Exception):
    """Raised instead of CancelledError in a call that ``SingleFlight.cut`` ended."""


class SingleFlight:
    """Lock that lets one call at a time in (``async with``) and can cut that call off.

    The call runs in its caller's own task, because starting another task costs as much as a short call.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._inside: asyncio.Task[Any] | None = None
        self._cut = False

    @property
    def busy(self) -> bool:
        """Return whether a call is running."""
        return self._inside is not None

    @property
    def cutting(self) -> bool:
        """Return whether the cancellation that the running call sees comes from ``cut`` alone."""
        return self._cut and self._inside is not None and self._inside.cancelling() == 1

    async def cut(self) -> None:
        """Cancel the running call, which raises CutOff, and wait until it has returned; admit no other meanwhile."""
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
