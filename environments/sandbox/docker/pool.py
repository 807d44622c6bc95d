"""Containers that are started before they are needed, and the thread that keeps this process's containers alive.

The first sandbox of a configuration waits for its container to start; meanwhile ETUDE_WARM others (default 1) are
started for the next ones, such as the fresh sandbox that a grade needs. A spare that is not taken within a minute is
closed. A container is used once and never returned.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ....errors import SandboxError
from .engine import Engine, Kind, owner
from .reaper import watch
from .stream import HEARTBEAT_S, Stream, beat_all, close_all

_IDLE_S = 60.0
_STARTS_AT_ONCE = 2


@dataclass
class Started:
    """A container whose worker waits for its first request."""

    container: str
    stream: Stream
    since: float = field(default_factory=time.monotonic)


class Pool:
    """The engines, spare containers and reapers of this process; shared by its event loops and threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engines: dict[tuple[str, str], Engine] = {}
        self._spares: dict[tuple[str, str], list[Future[Started]]] = {}
        self._starter = ThreadPoolExecutor(_STARTS_AT_ONCE, "etude-container")
        self._stop = threading.Event()
        self._reapers: dict[str, subprocess.Popen[bytes]] = {}

    def engine(self, kind: Kind) -> Engine:
        """Return a connection; the first one also removes leftovers of dead servers. Blocks."""
        key = (kind.name, kind.address())
        with self._lock:
            if key in self._engines:
                return self._engines[key]
            engine = Engine(kind)
            engine.remove_leftovers()
            if not self._engines:
                threading.Thread(target=self._keep_alive, name="etude-heartbeat", daemon=True).start()
            self._engines[key] = engine
            if kind.name not in self._reapers:
                self._reapers[kind.name] = watch(kind)
            return engine

    def forget_engine(self, engine: Engine) -> None:
        """Drop a connection that failed: the next sandbox connects again."""
        with self._lock:
            self._engines = {key: other for key, other in self._engines.items() if other is not engine}

    @property
    def ready(self) -> list[str]:
        """Return the containers of the spares that wait."""
        with self._lock:
            return [spare.container for spares in self._spares.values() for spare in _open_spares(spares)]

    def take_spare(self, engine: Engine, config: Mapping[str, Any]) -> Started | None:
        """Return a container of this configuration that is ready, or None."""
        with self._lock:
            spares = self._spares.get(_key(engine, config), [])
            for future in [future for future in spares if future.done()]:
                spares.remove(future)
                for spare in _open_spares([future]):
                    return spare
        return None

    def start(self, engine: Engine, config: Mapping[str, Any]) -> Started:
        """Start a new container. Blocks for some tenths of a second; raises SandboxError."""
        container, attached = engine.start(config, f"etude-{os.getpid()}-{os.urandom(4).hex()}")
        return Started(container, Stream(attached, engine.kind.name))

    def refill(self, engine: Engine, config: Mapping[str, Any]) -> None:
        """Start spares for the next sandboxes of this configuration; returns at once."""
        key = _key(engine, config)
        with self._lock:
            # One that could not be started is dropped: the sandbox that needs it reports why.
            spares = [future for future in self._spares.get(key, []) if not future.done() or _open_spares([future])]
            self._spares[key] = spares
            for _ in range(_warm() - len(spares)):
                try:
                    spares.append(self._starter.submit(self.start, engine, config))
                except RuntimeError:  # the interpreter is ending
                    return

    def _keep_alive(self) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            beat_all()
            with self._lock:
                for spares in self._spares.values():
                    for spare in _open_spares(spares):
                        if time.monotonic() - spare.since > _IDLE_S:
                            spare.stream.close()

    def close(self) -> None:
        """Close the spares and remove every container that this process still has."""
        self._stop.set()
        self._starter.shutdown(wait=True, cancel_futures=True)
        for spares in self._spares.values():
            for spare in _open_spares(spares):
                spare.stream.close()
        for engine in self._engines.values():
            try:
                engine.remove_leftovers(owner(), dead=False)
            except SandboxError:
                continue
        for reaper in self._reapers.values():
            # Nothing remains for it to do.
            reaper.kill()
            reaper.wait()

    def abandon(self) -> None:
        """Disconnect a forked child from its parent's containers."""
        for reaper in self._reapers.values():
            if reaper.stdin is not None:
                reaper.stdin.close()
        close_all()


def _open_spares(futures: list[Future[Started]]) -> list[Started]:
    """Return the containers that were started and are still connected."""
    ended = [future for future in futures if future.done() and not future.cancelled()]
    spares = [future.result() for future in ended if future.exception() is None]
    return [spare for spare in spares if not spare.stream.closed]


def _key(engine: Engine, config: Mapping[str, Any]) -> tuple[str, str]:
    return engine.address, json.dumps(config, sort_keys=True)


def _warm() -> int:
    text = os.environ.get("ETUDE_WARM", "1")
    if not text.isdecimal():
        raise SandboxError(f"ETUDE_WARM={text!r} is not a number of containers")
    return int(text)


_pool: Pool | None = None
_pool_lock = threading.Lock()


def pool() -> Pool:
    """Return this process's pool."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = Pool()
        return _pool


def close_pool() -> None:
    """Remove every container of this process; the next sandbox makes a new pool."""
    global _pool
    with _pool_lock:
        closing, _pool = _pool, None
    if closing is not None:
        closing.close()


def _after_fork() -> None:
    global _pool, _pool_lock
    _pool_lock = threading.Lock()
    if _pool is not None:
        _pool.abandon()
        _pool = None


atexit.register(close_pool)
os.register_at_fork(after_in_child=_after_fork)
