"""Sessions on one Etude server that another framework's loop plays in, from any thread or event loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from ...client import Client
from ...errors import ConnectionLost
from ...loop_thread import LoopThread

T = TypeVar("T")


class Sessions:
    """Sessions on one server, on an event loop in a separate thread.

    A session that an episode has left serves the next episode. The sessions end with the last object that uses them,
    and with the process; after ``close`` they open again when they are used.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.RLock()  # reentrant: the garbage collector may call _leave while the lock is held
        self._thread: LoopThread | None = None
        self._end: Callable[[], Any] = lambda: None
        self._idle: list[Client] = []
        self._open: set[Client] = set()
        self._playing: set[Client] = set()
        self._released = asyncio.Event()
        self.ended = 0
        """Number of episodes that have left their session."""

    def submit(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``call`` on the sessions' loop. ``close`` cancels it."""
        with self._lock:
            return self._running_thread().submit(call)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Start ``call`` and wait for it; not to be used on an event loop.

        An interrupt of the waiting thread cancels the call. Raises ConnectionLost when the sessions are closed.
        """
        future = self.submit(call)
        try:
            return future.result()
        except CancelledError:
            raise ConnectionLost("the sessions were closed while one was in use: play the episode again") from None
        except BaseException:
            future.cancel()
            raise

    def leave_with(self, owner: Any, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call ``leave`` when ``owner`` is garbage-collected: the server would reserve its session otherwise."""
        weakref.finalize(owner, self._leave, leave).atexit = False

    def _leave(self, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._lock.acquire(timeout=1.0):
            return  # the sessions are closing, and may wait for the thread that this runs on
        try:
            if self._thread is not None:
                self._thread.submit(leave())
        finally:
            self._lock.release()

    async def acquire(self, *, fresh: bool = False) -> Client:
        """Return a connected session that is not in use; ``fresh``: a new one. Raises ConnectionLost."""
        if self._idle and not fresh:
            return self._idle.pop()
        client = await Client(self.url).connect()
        self._open.add(client)
        return client

    def mark_playing(self, client: Client) -> None:
        """Record that the server plays an episode in this session."""
        self._playing.add(client)

    def release(self, client: Client) -> None:
        """Make a session available to another episode."""
        self._idle.append(client)
        self._count_end(client)

    async def discard(self, client: Client) -> None:
        """Close a session that cannot be used again."""
        self._open.discard(client)
        await client.close()
        self._count_end(client)

    async def wait_for_end(self, ended: int) -> bool:
        """Wait until ``ended`` has grown beyond this number; False when no episode is being played."""
        while self.ended == ended:
            if not self._playing:
                return False
            self._released.clear()
            await self._released.wait()
        return True

    def _count_end(self, client: Client) -> None:
        """Count an episode that left its session; one that the server refused never began."""
        if client in self._playing:
            self._playing.discard(client)
            self.ended += 1
            self._released.set()

    def close(self) -> None:
        """End every session and cancel the calls in progress. Idempotent, from any thread."""
        with self._lock:
            self._end()
            self._thread = None
            self._idle.clear()
            self._playing.clear()

    def _running_thread(self) -> LoopThread:
        """Return the loop's thread; the caller holds the lock, so that no call starts on a loop that is stopping."""
        if self._thread is None:
            self._thread, self._released = LoopThread(), asyncio.Event()
            self._end = weakref.finalize(self, _end, self._thread, self._open)
        return self._thread


def _end(thread: LoopThread, clients: set[Client]) -> None:
    """Cancel all calls and close the clients, without waiting when the garbage collector runs on an event loop."""
    closing = thread.submit(_close(clients))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        closing.result()
        thread.stop()


async def _close(clients: set[Client]) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    while clients:
        await clients.pop().close()
