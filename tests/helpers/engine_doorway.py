"""A container engine that goes away and comes back, without touching the real one."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path


class Doorway:
    """A socket in front of the engine's, which goes away and comes back as the engine's own does when it restarts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.restarts = 0
        self._ends: list[socket.socket] = []
        self.open()

    def open(self) -> None:
        self.path.unlink(missing_ok=True)
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(self.path))
        self._door.listen()
        threading.Thread(target=self._admit, args=(self._door,), daemon=True).start()

    def _admit(self, door: socket.socket) -> None:
        while True:
            try:
                guest, _ = door.accept()
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX)
            engine.connect("/var/run/docker.sock")
            self._ends += [guest, engine]
            for one, other in ((guest, engine), (engine, guest)):
                threading.Thread(target=self._carry, args=(one, other, self.restarts), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket, since: int) -> None:
        """Carry data until the engine is restarted: what is asked over an older connection gets no answer."""
        with contextlib.suppress(OSError):
            while (data := one.recv(1 << 16)) and since == self.restarts:
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
            one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.path.unlink(missing_ok=True)
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
