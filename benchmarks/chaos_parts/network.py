"""A network that fails on request: a TCP proxy whose connections can be cut, or fall silent without being closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from urllib.parse import urlsplit

from etude.loop_thread import LoopThread


class FaultyNetwork:
    """Proxy in front of a server. ``cut`` resets every connection; while ``silent`` holds, no byte passes."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._thread = LoopThread()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self.connections = 0
        self._server = self._thread.run(self._start())
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Reset every connection, as a router does that was restarted."""
        self._thread.run(self._cut())

    def silence(self, silent: bool) -> None:
        """Let no byte pass, while both sides hold their connections for open; or let them pass again."""
        self._thread.run(self._silence(silent))

    def close(self) -> None:
        """End every connection, and the proxy."""
        self._thread.run(self._close())
        self._thread.stop()

    async def _start(self) -> asyncio.Server:
        self._open.set()
        return await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _close(self) -> None:
        self._server.close()
        self._open.set()
        while self._tasks:  # one may be connecting just now
            await self._cut()
            await asyncio.wait(self._tasks, timeout=0.1)

    async def _silence(self, silent: bool) -> None:
        self._open.clear() if silent else self._open.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            far_reader, far_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(reader, far_writer))
                group.create_task(self._copy(far_reader, writer))
        except* OSError:
            pass
        finally:
            for each in pair:
                each.transport.abort()
            self._writers -= pair

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._open.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("one side has closed the connection")


@contextlib.contextmanager
def faulty_network(url: str) -> Iterator[FaultyNetwork]:
    """Stand between clients and the server at ``url``."""
    network = FaultyNetwork(url)
    try:
        yield network
    finally:
        network.close()
