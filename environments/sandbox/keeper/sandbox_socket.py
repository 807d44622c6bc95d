"""The server's socket of one sandbox: the base of the conversations with the keeper and with the containers' worker."""

from __future__ import annotations

import asyncio
import os
import socket

from ....errors import SandboxError


class SandboxSocket:
    """A socket that an event loop waits for. It belongs to the process that opened it, not to forked children."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._owner = os.getpid()
        self._waiting = False
        self.closed = False

    @property
    def is_own(self) -> bool:
        """Return whether this process opened the socket."""
        return self._owner == os.getpid()

    def check_open(self) -> None:
        """Raise SandboxError after close, and in a forked child."""
        if not self.is_own:
            raise SandboxError("this sandbox belongs to the parent process; open one in each process")
        if self.closed:
            raise SandboxError("the sandbox is closed")

    async def wait_until_ready(self, *, writing: bool = False) -> None:
        """Wait until the socket can be read, or written."""
        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        descriptor = self._socket.fileno()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        watch, unwatch = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
        watch(descriptor, wake)
        self._waiting = True
        try:
            await woken
        finally:
            self._waiting = False
            unwatch(descriptor)

    def close(self) -> None:
        """Hang up, which ends the sandbox; a call that waits wakes with an error. A parent's socket is not shut down.

        Idempotent.
        """
        self.closed = True
        if self.is_own:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            # A waiting call has this descriptor registered in its loop, and closes it when it wakes.
            if self._waiting:
                return
        self._socket.close()
