"""Handover of a connection: the front passes its socket to a worker, with the bytes that were read from it.

The channel between the two is a socket of packets. The front sends one packet for each connection: JSON, the socket,
and a file in memory with the bytes. The worker sends what happens to its sessions (``Report``), so that the front knows
how many there are.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Literal

_PACKET = 4096
"""Bytes of the longest packet."""


@dataclass(frozen=True)
class Handover:
    """What a worker must know of a connection."""

    number: int
    """Number of the handover if a session may be opened on the connection, else 0."""
    elsewhere: int = 0
    """Sessions in the other workers."""
    of_client: int = 0
    """Those of the same client."""


@dataclass(frozen=True)
class Report:
    """What happened in a worker."""

    event: Literal["ready", "opened", "closed", "settled", "stopping"]
    """``settled``: the connection of the handover opens no session, or no more. ``stopping``: hand over no others."""
    number: int = 0
    """Number of the handover."""
    client: str = ""
    """Client of the session."""


class Arrival:
    """A connection in its worker. It reports once what becomes of the handover."""

    def __init__(self, handover: Handover, report: Callable[[Report], None]) -> None:
        self.handover = handover
        self._report = report
        self._settled = not handover.number

    def opened(self, client: str) -> None:
        """Report that a session of a client was opened on the connection."""
        self._settled = True
        self._report(Report("opened", self.handover.number, client))

    def settle(self) -> None:
        """Report that the connection opens no session, unless it has opened one."""
        if not self._settled:
            self._settled = True
            self._report(Report("settled", self.handover.number))


arrival: ContextVar[Arrival | None] = ContextVar("arrival", default=None)
"""The handover of the current request's connection; None in a server without workers."""


def channel_pair() -> tuple[socket.socket, socket.socket]:
    """Return the ends of a channel, for the front and for a worker; neither blocks."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
    return ends


def send_connection(channel: socket.socket, handover: Handover, connection: socket.socket, data: bytes) -> None:
    """Send a connection to a worker. Raises BlockingIOError when the channel is full, OSError when the worker ended."""
    descriptor = os.memfd_create("etude-request", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        socket.send_fds(channel, [json.dumps(asdict(handover)).encode()], [connection.fileno(), descriptor])
    finally:
        os.close(descriptor)


def receive_connection(channel: socket.socket) -> tuple[Handover, socket.socket, bytes] | None:
    """Return the next connection and its first bytes; None when the front has ended. Raises BlockingIOError."""
    packet, descriptors, _, _ = socket.recv_fds(channel, _PACKET, 2)
    if not packet:
        return None
    connection = socket.socket(fileno=descriptors[0])
    connection.setblocking(False)
    with os.fdopen(descriptors[1], "rb") as file:
        file.seek(0)
        return Handover(**json.loads(packet)), connection, file.read()


def encode_report(report: Report) -> bytes:
    """Return the packet of a report."""
    return json.dumps(asdict(report)).encode()


def receive_report(channel: socket.socket) -> Report | None:
    """Return a worker's next report; None when the worker has ended. Raises BlockingIOError."""
    packet = channel.recv(_PACKET)
    return Report(**json.loads(packet)) if packet else None
