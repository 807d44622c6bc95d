"""Reading what a command writes, as it writes it, without keeping more than was asked for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

_CHUNK = 1 << 16
_CHUNKS_PER_TURN = 16
# More than any pipe holds, and still an end should a writer outlive its sandbox.
_LAST_CHUNKS = 256


class Capture:
    """Keeps the head and the tail of a stream: at most ``limit`` bytes, and how many were dropped between."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def feed(self, data: bytes) -> None:
        self._total += len(data)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Trimmed only when twice too long, so that a flood is not copied for every chunk.
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: len(self._tail) - self._tail_room]

    def result(self) -> tuple[bytes, int]:
        """The kept bytes and the number dropped."""
        tail = self._tail[len(self._tail) - min(len(self._tail), self._tail_room) :]
        kept = bytes(self._head + tail)
        return kept, self._total - len(kept)


class Prefix:
    """Keeps the first ``limit`` bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    def feed(self, data: bytes) -> None:
        self._kept += data[: max(0, self._limit - len(self._kept))]

    def result(self) -> bytes:
        return bytes(self._kept)


class Pump:
    """Reads a pipe on the running loop into ``feed`` until it is finished; owns the pipe's reading end."""

    def __init__(self, feed: Callable[[bytes], None]) -> None:
        self._feed = feed
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reader, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._turn)
        self._open = True

    def close_writer(self) -> None:
        """Once the writing end has been handed over."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def finish(self) -> None:
        """Take what is left in the pipe and stop; for when every writer is dead."""
        self.close_writer()
        for _ in range(_LAST_CHUNKS):
            if not self._open or not self._read():
                break
        self._stop()

    def _turn(self) -> None:
        for _ in range(_CHUNKS_PER_TURN):
            if not self._read():
                return

    def _read(self) -> bool:
        """Read one chunk; False when there is none now."""
        try:
            data = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._stop()
            return False
        self._feed(data)
        return True

    def _stop(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
