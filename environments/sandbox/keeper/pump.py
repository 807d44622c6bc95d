"""Reading what a command writes, as it writes it, on the server's event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

_CHUNK = 1 << 16
_CHUNKS_PER_TURN = 16
# More than any pipe holds, and still an end should a writer outlive its sandbox.
_LAST_CHUNKS = 256


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
        """Close the writing end, once it has been handed over."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def finish(self) -> None:
        """Read what is in the pipe and stop; for when every writer is dead."""
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
        """Read one chunk; return False when there is none now."""
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
