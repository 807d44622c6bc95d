"""Front of a server with workers: it accepts connections, and hands each one to the worker of its session."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable

from ..admission import client_of
from .pool import Pool
from .request_head import RequestHead, read_head
from .totals import Answer, Totals

log = logging.getLogger(__name__)

HEAD_S = 15.0
"""Seconds that a client has to send the head of its request."""
MAX_UNREAD = 4096
"""Connections whose heads are being read at a time; the others wait in the listener."""
_NO_WORKER_S = 10.0
_NO_WORKER = Answer(503, "application/json", b'{"detail": "no worker is running: try again in some seconds"}')


class Front:
    """Accepts the connections of a listening socket for the workers of a pool."""

    def __init__(self, listener: socket.socket, pool: Pool) -> None:
        self._listener, self._pool, self._totals = listener, pool, Totals(pool)
        self._unread = asyncio.Semaphore(MAX_UNREAD)
        self._connections: set[asyncio.Task[None]] = set()

    async def accept(self) -> None:
        """Accept connections until cancelled."""
        self._listener.setblocking(False)
        loop = asyncio.get_running_loop()
        while True:
            await self._unread.acquire()
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError as error:  # such as too many open files
                self._unread.release()
                log.error("a connection was not accepted: %s", error)
                await asyncio.sleep(0.1)
                continue
            except BaseException:
                self._unread.release()
                raise
            connection.setblocking(False)
            task = asyncio.create_task(self._serve(connection, client_of({"client": address})))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, connection: socket.socket, client: str) -> None:
        try:
            with connection, contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(HEAD_S):
                    request = await read_head(connection)
                if request is None:
                    return
                answer = await self._totals.answer(request) if self._totals.adds_up(request) else None
                if answer is None and not await self._pass_on(connection, request, client):
                    answer = _NO_WORKER
                if answer is not None:
                    await asyncio.get_running_loop().sock_sendall(connection, answer.encoded())
        finally:
            self._unread.release()

    async def _pass_on(self, connection: socket.socket, request: RequestHead, client: str) -> bool:
        """Hand a connection to a worker; return whether one took it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _NO_WORKER_S
        while loop.time() < deadline:
            worker = self._pool.choose(request)
            if worker is None and self._pool.stopping:
                return False
            if worker is not None and await self._pool.hand_over(worker, request, connection, client):
                return True
            await asyncio.sleep(0.05)
        return False


async def run_front(listener: socket.socket, pool: Pool, ready: Callable[[], None], drains: bool) -> int:
    """Serve with workers until SIGINT or SIGTERM; return the exit code.

    ``ready`` is called when connections are accepted. With ``drains`` they are accepted until the workers have ended.
    """
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()

    def stop() -> None:
        if stopped.is_set():
            pool.signal()
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if not await pool.start():
        return 1
    accepting = asyncio.create_task(Front(listener, pool).accept())
    ready()
    await stopped.wait()
    if not drains:
        accepting.cancel()
        listener.close()
    await pool.stop()
    accepting.cancel()
    return 0
