"""The server's end of a container's attached stream: frames to the worker and back, and a sign of life.

The engine, or the relay of a pod's connection, carries the worker's output in pieces with their own header. What the
worker writes to its standard error is kept for the message when it is gone.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from ....errors import SandboxError
from ..keeper.sandbox_socket import SandboxSocket
from .worker.serve import FRAME, frames_in

PIECE = struct.Struct(">BxxxI")
STDERR = 2
_RECEIVE = 1 << 18
_BLOB_PART = 1 << 20
_LAST_WORDS = 500
HEARTBEAT_S = 10.0
# A worker that cannot kill within this is given up; its own patience is shorter.
_KILL_S = 25.0

_streams: weakref.WeakSet[Stream] = weakref.WeakSet()


class Stream(SandboxSocket):
    """One conversation: a request with perhaps a blob, then frames until the reply. Not for concurrent calls."""

    def __init__(self, attached: socket.socket, kind: str, gone: str) -> None:
        """``gone`` is said when the worker does not answer any more, before its last words."""
        super().__init__(attached)
        self._kind = kind
        self._gone_text = gone
        # A heartbeat never falls into the middle of a frame.
        self._sending = threading.Lock()
        self._raw = bytearray()
        self._frames = bytearray()
        self._errors = b""
        _streams.add(self)

    async def request(
        self,
        request: Mapping[str, Any],
        blob: bytes | memoryview = b"",
        sink: Callable[[bytes, bytes], None] | None = None,
    ) -> dict[str, Any]:
        """Ask and wait; frames before the reply go to ``sink``. A cancelled caller leaves a killed command behind.

        Raises SandboxError when the worker or the engine is gone, ValueError for a bound that is exceeded.
        """
        self.check_open()
        view = memoryview(blob)
        try:
            for start in range(0, len(view), _BLOB_PART):
                await self._send(b"B", view[start : start + _BLOB_PART])
            await self._send(b"Q", json.dumps(request).encode())
        except asyncio.CancelledError:
            self.close()  # half a frame may be on its way
            raise
        try:
            return await self._reply(sink or _ignore)
        except asyncio.CancelledError:
            try:
                async with asyncio.timeout(_KILL_S):
                    await self._send(b"K", b"")
                    await self._reply(_ignore)
            except (asyncio.CancelledError, TimeoutError, SandboxError):
                self.close()
            raise

    async def _reply(self, sink: Callable[[bytes, bytes], None]) -> dict[str, Any]:
        while True:
            for kind, content in frames_in(self._frames):
                if kind == b"R":
                    reply: dict[str, Any] = json.loads(content)
                    if "limit" in reply:
                        raise ValueError(reply["limit"])
                    if "error" in reply:
                        raise SandboxError(f"{self._kind} failed: {reply['error']}")
                    return reply
                sink(kind, content)
            await self._receive()

    async def _receive(self) -> None:
        while True:
            try:
                data = self._socket.recv(_RECEIVE)
                break
            except BlockingIOError:
                await self.wait_until_ready()
            except OSError:
                data = b""
                break
        if not data:
            raise self._gone()
        self._raw += data
        for stream, content in frames_in(self._raw, PIECE):
            if stream == STDERR:
                self._errors = (self._errors + content)[-_LAST_WORDS:]
            else:
                self._frames += content

    async def _send(self, kind: bytes, content: bytes | memoryview) -> None:
        with self._sending:
            for data in (FRAME.pack(kind, len(content)), content):
                view = memoryview(data)
                while view:
                    try:
                        view = view[self._socket.send(view) :]
                    except BlockingIOError:
                        await self.wait_until_ready(writing=True)
                    except OSError as error:
                        raise self._gone() from error

    def beat(self) -> None:
        """Tell the worker that the server lives; called from another thread."""
        if self._sending.acquire(blocking=False):
            try:
                if not self.closed and self.is_own:
                    self._socket.send(FRAME.pack(b"H", 0))
            except OSError:
                return  # the next request finds out
            finally:
                self._sending.release()

    def _gone(self) -> SandboxError:
        was_closed = self.closed
        self.close()
        if was_closed:
            return SandboxError("the sandbox is closed")
        reason = self._errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        why = f": {reason}" if reason else ""
        return SandboxError(f"{self._gone_text}{why}; open a new sandbox")


def beat_all() -> None:
    """Send one sign of life to every worker of this process."""
    for stream in list(_streams):
        stream.beat()


def close_all() -> None:
    """Disconnect this process, a forked child, from its parent's containers."""
    for stream in list(_streams):
        stream.close()


def _ignore(kind: bytes, content: bytes) -> None:
    return
