"""Sessions that somebody else's loop plays in, whatever its threads and event loops are."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from ...client import Client, LoopThread
from ...errors import ConnectionLost

T = TypeVar("T")


class Sessions:
    """Sessions on one server, on an event loop in a thread of their own: any thread and any loop may play in them.

    One that an episode has left is used for the next. They end with the last object that uses them, and with the
    process; closed, they open again when they are used again.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.RLock()  # the collector may run what takes it wherever it is held
        self._thread: LoopThread | None = None
        self._ending: Callable[[], Any] = lambda: None
        self._idle: list[Client] = []
        self._open: set[Client] = set()
        self._playing: set[Client] = set()
        self._leaving = asyncio.Event()
        self.ended = 0

    def submit(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``call`` where the sessions are. Closing them cancels it."""
        with self._lock:
            return self._running().submit(call)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Start it, and wait for it; not to be called from an event loop. Raises ConnectionLost when they are closed
        meanwhile; an interrupt of the waiting thread cancels it."""
        future = self.submit(call)
        try:
            return future.result()
        except CancelledError:
            raise ConnectionLost("the sessions were closed while one was in use: play the episode again") from None
        except BaseException:
            future.cancel()
            raise

    def abandon(self, owner: Any, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Once nobody has ``owner`` any more, its episode is left: the server would keep the session for it."""
        weakref.finalize(owner, self._abandoned, leave).atexit = False

    def _abandoned(self, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._lock.acquire(timeout=1.0):
            return  # they are closing, and may wait for the thread that this runs on
        try:
            if self._thread is not None:
                self._thread.submit(leave())
        finally:
            self._lock.release()

    async def take(self, *, fresh: bool = False) -> Client:
        """A connected session that nobody uses; ``fresh``: a new one. Raises ConnectionLost."""
        if self._idle and not fresh:
            return self._idle.pop()
        client = await Client(self.url).connect()
        self._open.add(client)
        return client

    def admitted(self, client: Client) -> None:
        """The server plays an episode in it."""
        self._playing.add(client)

    def give(self, client: Client) -> None:
        """It is free for another episode."""
        self._idle.append(client)
        self._left(client)

    async def drop(self, client: Client) -> None:
        """It is of no more use."""
        self._open.discard(client)
        await client.close()
        self._left(client)

    async def back(self, seen: int) -> bool:
        """Wait until an episode has left its session since ``ended`` was ``seen``; False when none is played."""
        while self.ended == seen:
            if not self._playing:
                return False
            self._leaving.clear()
            await self._leaving.wait()
        return True

    def _left(self, client: Client) -> None:
        """A refused one was never in."""
        if client in self._playing:
            self._playing.discard(client)
            self.ended += 1
            self._leaving.set()

    def close(self) -> None:
        """End every session, and whatever is done in one: nobody waits for it any more. Idempotent, from any thread."""
        with self._lock:
            self._ending()
            self._thread = None
            self._idle.clear()
            self._playing.clear()

    def _running(self) -> LoopThread:
        """To be called, and used, under the lock: nothing is started on a loop that is about to stop."""
        if self._thread is None:
            self._thread, self._leaving = LoopThread(), asyncio.Event()
            self._ending = weakref.finalize(self, _end, self._thread, self._open)
        return self._thread


def _end(thread: LoopThread, clients: set[Client]) -> None:
    """End all that goes on on their loop, and close them. The collector may call this on any thread: an event loop is
    not made to wait."""
    closing = thread.submit(_close(clients))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        closing.result()
        thread.stop()


async def _close(clients: set[Client]) -> None:
    going_on = asyncio.all_tasks() - {asyncio.current_task()}
    for task in going_on:
        task.cancel()
    await asyncio.gather(*going_on, return_exceptions=True)
    while clients:
        await clients.pop().close()
