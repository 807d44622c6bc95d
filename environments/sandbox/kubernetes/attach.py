"""The connection to a pod's worker: a WebSocket that a thread's event loop carries to a local socket and back.

A stream waits for a plain socket of its own event loop, and beats from another thread. The client library's WebSocket
blocks a thread for each direction of each pod, and TLS sockets are not made for two threads; so one thread carries all
pods here, over the library's addresses, credentials and certificates. The first byte of each message is its channel.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from ....errors import EngineGone
from ....loop_thread import LoopThread
from ..containers.stream import PIECE, STDERR
from .cluster import Cluster
from .pod_status import line

_PROTOCOLS = [Subprotocol("v5.channel.k8s.io"), Subprotocol("v4.channel.k8s.io")]
_STDIN, _STDOUT, _STATUS = 0, 1, 3
_PART = (1 << 15) - 1
_OPEN_S = 30.0
# An API server that is gone without a word is noticed; kubectl asks as well.
_PING_S, _PONG_S = 20.0, 60.0

Epitaph = Callable[[], str]
"""Returns why a pod's connection has ended; blocks."""


def attach(carrier: LoopThread, cluster: Cluster, pod: str, epitaph: Epitaph, end: Callable[[], None]) -> socket.socket:
    """Connect to a pod's worker and return a socket that carries frames in, and pieces of its output out.

    ``end`` is called, in a thread, when either side has hung up. Blocks. Raises SandboxError.
    """
    connection = carrier.run(_connected(cluster, pod))
    near, far = socket.socketpair()
    far.setblocking(False)
    carrier.submit(_carry(connection, far, epitaph, end))
    return near


async def _connected(cluster: Cluster, pod: str) -> ClientConnection:
    address = await asyncio.to_thread(cluster.attach_address, pod)
    options: dict[str, Any] = {} if address.context is None else {"ssl": address.context}
    if address.server_name:
        options["server_hostname"] = address.server_name
    try:
        return await connect(
            address.url,
            subprotocols=_PROTOCOLS,
            additional_headers=dict(address.headers),
            compression=None,
            max_size=None,
            open_timeout=_OPEN_S,
            ping_interval=_PING_S,
            ping_timeout=_PONG_S,
            proxy=address.proxy,
            **options,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        raise cluster.refusal("create", "pods/attach", status, bytes(error.response.body or b"")) from error
    except (OSError, InvalidHandshake, ConnectionClosed, TimeoutError) as error:
        where = urlsplit(address.url).netloc
        why = line(error) or type(error).__name__
        raise EngineGone(f"cannot attach to the pod {pod} at {where} ({why})") from error


async def _carry(connection: ClientConnection, local: socket.socket, epitaph: Epitaph, end: Callable[[], None]) -> None:
    """Carry both ways until one side hangs up."""
    hung_up = asyncio.Event()
    outgoing = asyncio.ensure_future(_carry_out(connection, local, hung_up))
    try:
        await _carry_in(connection, local)
        if not hung_up.is_set():
            await _send(local, STDERR, f"\n{await asyncio.to_thread(epitaph)}\n".encode())
    except OSError:
        pass  # the server has hung up and reads no last words
    finally:
        outgoing.cancel()
        await asyncio.wait([outgoing])
        local.close()
        await connection.close()
        await _in_thread(end)


async def _carry_in(connection: ClientConnection, local: socket.socket) -> None:
    """Carry the worker's output until the connection ends; what the API says about it becomes the last words."""
    try:
        async for message in connection:
            data = message.encode() if isinstance(message, str) else message
            if not data:
                continue
            if data[0] in (_STDOUT, STDERR):
                await _send(local, data[0], data[1:])
            elif data[0] == _STATUS and (words := _failure(data[1:])):
                await _send(local, STDERR, f"\n{words}\n".encode())
    except ConnectionClosed:
        return


async def _carry_out(connection: ClientConnection, local: socket.socket, hung_up: asyncio.Event) -> None:
    """Carry frames to the worker until the server hangs up, then close the connection."""
    loop = asyncio.get_running_loop()
    try:
        while data := await loop.sock_recv(local, _PART):
            await connection.send(bytes([_STDIN]) + data)
    except ConnectionClosed:
        return
    except OSError:
        pass
    hung_up.set()
    await connection.close()


async def _send(local: socket.socket, channel: int, content: bytes) -> None:
    if content:
        await asyncio.get_running_loop().sock_sendall(local, PIECE.pack(channel, len(content)) + content)


def _failure(text: bytes) -> str:
    """Return the message of a failure, empty for a success."""
    try:
        status = json.loads(text)
    except ValueError:
        return line(text.decode("utf-8", "replace"))
    return line(status.get("message", "")) if isinstance(status, dict) and status.get("status") != "Success" else ""


async def _in_thread(call: Callable[[], None]) -> None:
    try:
        await asyncio.to_thread(call)
    except RuntimeError:  # the interpreter is ending, and removes its pods by itself
        return
