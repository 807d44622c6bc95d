"""Containers that are started before they are needed, and the thread that keeps this process's workers alive.

The first sandbox of a configuration waits for its container to start; meanwhile ETUDE_WARM others (default 1) are
started for the next ones, such as the fresh sandbox that a grade needs. A spare that is not taken within a minute is
closed. A container is used once and never returned.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field

from ....errors import SandboxError
from .background import Background
from .stream import HEARTBEAT_S, Stream, beat_all

_IDLE_S = 60.0
_LAST_STARTS_S = 20.0


@dataclass
class Started:
    """A container whose worker waits for its first request."""

    container: str
    stream: Stream
    since: float = field(default_factory=time.monotonic)


class Spares:
    """The spare containers of a process by their configuration; shared by its event loops and threads."""

    def __init__(self, starts_at_once: int) -> None:
        self._lock = threading.Lock()
        self._spares: dict[Hashable, list[Future[Started]]] = {}
        self._starter: Background[Started] = Background(starts_at_once, "etude-container")
        self._stop = threading.Event()
        self._beating = False

    def keep_alive(self) -> None:
        """Start the thread that sends the workers signs of life; later calls do nothing."""
        with self._lock:
            if not self._beating:
                self._beating = True
                threading.Thread(target=self._beat, name="etude-heartbeat", daemon=True).start()

    @property
    def ready(self) -> list[str]:
        """Return the containers of the spares that wait."""
        with self._lock:
            return [spare.container for spares in self._spares.values() for spare in _open_spares(spares)]

    def take(self, key: Hashable) -> Started | None:
        """Return a container of this configuration that is ready, or None."""
        with self._lock:
            spares = self._spares.get(key, [])
            for future in [future for future in spares if future.done()]:
                spares.remove(future)
                for spare in _open_spares([future]):
                    return spare
        return None

    def refill(self, key: Hashable, start: Callable[[], Started]) -> None:
        """Start spares for the next sandboxes of this configuration; returns at once."""
        with self._lock:
            # One that could not be started is dropped: the sandbox that needs it reports why.
            spares = [future for future in self._spares.get(key, []) if not future.done() or _open_spares([future])]
            self._spares[key] = spares
            for _ in range(_warm() - len(spares)):
                try:
                    spares.append(self._starter.submit(start))
                except RuntimeError:  # the interpreter is ending
                    return

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            beat_all()
            with self._lock:
                for spares in self._spares.values():
                    for spare in _open_spares(spares):
                        if time.monotonic() - spare.since > _IDLE_S:
                            spare.stream.close()

    def close(self) -> None:
        """Stop the thread and close the spares."""
        self._stop.set()
        self._starter.end(_LAST_STARTS_S)
        for spares in self._spares.values():
            for spare in _open_spares(spares):
                spare.stream.close()


def _open_spares(futures: list[Future[Started]]) -> list[Started]:
    """Return the containers that were started and are still connected."""
    ended = [future for future in futures if future.done() and not future.cancelled()]
    spares = [future.result() for future in ended if future.exception() is None]
    return [spare for spare in spares if not spare.stream.closed]


def _warm() -> int:
    text = os.environ.get("ETUDE_WARM", "1")
    if not text.isdecimal():
        raise SandboxError(f"ETUDE_WARM={text!r} is not a number of containers")
    return int(text)
