"""Worker process: it serves the connections that the front hands over, and reports its sessions."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextlib import suppress

import uvicorn

from .handover import Arrival, Handover, Report, arrival, encode_report, receive_connection

_LAST_S = 5.0
"""Seconds in which the front must have sent the last connection."""
_GREETING_S = 0.2
"""Seconds in which the last connections may be answered, such as with a refusal, before all are closed."""


class Connections:
    """Worker's end of the channel to the front. It takes connections into a server while that runs."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._reports: deque[bytes] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._taking: set[asyncio.Task[None]] = set()
        self._server: uvicorn.Server | None = None
        self._ended = asyncio.Event()

    def start(self, server: uvicorn.Server) -> None:
        """Take connections into ``server``, which has just started, until the front ends; then stop the server."""
        self._server = server
        asyncio.get_running_loop().add_reader(self._channel, self._receive)
        self.report(Report("ready"))

    async def stop(self) -> None:
        """Ask the front for no further connection, and take those that it has sent."""
        self.report(Report("stopping"))
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_S):
                await self._ended.wait()
                await asyncio.gather(*self._taking)
                await asyncio.sleep(_GREETING_S)

    def report(self, report: Report) -> None:
        """Send a report to the front, in order."""
        self._reports.append(encode_report(report))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._reports:
            try:
                self._channel.send(self._reports[0])
            except BlockingIOError:
                await asyncio.sleep(0.01)
            except OSError:  # the front has ended, which ``_receive`` notices
                self._reports.clear()
            else:
                self._reports.popleft()

    def _receive(self) -> None:
        assert self._server is not None
        while True:
            try:
                received = receive_connection(self._channel)
            except BlockingIOError:
                return
            except OSError:
                received = None
            if received is None:
                asyncio.get_running_loop().remove_reader(self._channel)
                self._ended.set()
                self._server.should_exit = True
                return
            task = asyncio.ensure_future(self._take(self._server, *received))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)

    async def _take(self, server: uvicorn.Server, handover: Handover, connection: socket.socket, data: bytes) -> None:
        """Serve a connection as uvicorn does, from the bytes that were read."""
        arrived = Arrival(handover, self.report)

        def protocol() -> asyncio.Protocol:
            served: asyncio.Protocol = server.config.http_protocol_class(  # type: ignore[call-arg]
                config=server.config, server_state=server.server_state, app_state=server.lifespan.state
            )
            connected = served.connection_made

            def start(transport: asyncio.BaseTransport) -> None:
                connected(transport)
                served.data_received(data)  # before the transport reads on

            served.connection_made = start  # type: ignore[method-assign]
            return served

        arrival.set(arrived)  # the tasks of the connection's requests inherit it
        try:
            await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
        except OSError:  # the client has closed it
            connection.close()
            arrived.settle()
