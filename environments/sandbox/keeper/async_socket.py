"""Sockets that an event loop waits for, for both the keeper's and docker's conversations."""

from __future__ import annotations

import asyncio
import socket


async def wait_until_ready(sock: socket.socket, *, writing: bool = False) -> None:
    """Wait until the socket can be read, or written."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()
    fd = sock.fileno()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    watch, unwatch = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    watch(fd, wake)
    try:
        await woken
    finally:
        unwatch(fd)


def hang_up(sock: socket.socket, *, opened_here: bool, waiting: bool) -> None:
    """Close the socket; a reader that waits wakes with an end of file. A parent's socket is not shut down."""
    if opened_here:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        # A waiting reader has this descriptor registered in its loop, and closes it when it wakes.
        if waiting:
            return
    sock.close()
