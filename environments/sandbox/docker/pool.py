"""The engines of this process: connections, spare containers, and the removal of what the process leaves."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import threading
from collections.abc import Mapping
from typing import Any

from ....errors import SandboxError
from ..containers.spares import Spares, Started
from ..containers.stream import Stream, close_all
from .engine import Engine, Kind, owner
from .reaper import watch

_STARTS_AT_ONCE = 2


class Pool:
    """The engines, spare containers and reapers of this process; shared by its event loops and threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engines: dict[tuple[str, str], Engine] = {}
        self._spares = Spares(_STARTS_AT_ONCE)
        self._reapers: dict[str, subprocess.Popen[bytes]] = {}

    def engine(self, kind: Kind) -> Engine:
        """Return a connection; the first one also removes leftovers of dead servers. Blocks."""
        key = (kind.name, kind.address())
        with self._lock:
            if key in self._engines:
                return self._engines[key]
            engine = Engine(kind)
            engine.remove_leftovers()
            self._spares.keep_alive()
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
        return self._spares.ready

    def take_spare(self, engine: Engine, config: Mapping[str, Any]) -> Started | None:
        """Return a container of this configuration that is ready, or None."""
        return self._spares.take(_key(engine, config))

    def start(self, engine: Engine, config: Mapping[str, Any]) -> Started:
        """Start a new container. Blocks for some tenths of a second; raises SandboxError."""
        container, attached = engine.start(config, f"etude-{os.getpid()}-{os.urandom(4).hex()}")
        kind = engine.kind.name
        return Started(container, Stream(attached, kind, f"the {kind} container is gone (or its engine)"))

    def refill(self, engine: Engine, config: Mapping[str, Any]) -> None:
        """Start spares for the next sandboxes of this configuration; returns at once."""
        self._spares.refill(_key(engine, config), lambda: self.start(engine, config))

    def close(self) -> None:
        """Close the spares and remove every container that this process still has."""
        self._spares.close()
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


def _key(engine: Engine, config: Mapping[str, Any]) -> tuple[str, str]:
    return engine.address, json.dumps(config, sort_keys=True)


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
