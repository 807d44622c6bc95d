"""Event loop in a thread, for callers without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from .errors import ConnectionLost

T = TypeVar("T")


class LoopThread:
    """Event loop in a separate thread: what was opened on it stays usable from call to call."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="etude-loop", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Return whether the loop accepts calls."""
        return self._thread.is_alive()

    def submit(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``call`` and return its future. Raises ConnectionLost when the loop has been stopped."""
        if not self.running:
            call.close()
            raise ConnectionLost("this client is closed: connect again")
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run ``call`` and return its result; an interrupt of the waiting thread cancels it."""
        future = self.submit(call)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Stop the loop and wait for its thread."""
        if self.running:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
