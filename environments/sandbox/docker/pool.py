"""Containers that are started before they are needed, and the thread that keeps all of this process's alive.

The first sandbox of a configuration waits for its container to start; meanwhile ETUDE_WARM others (default 1) are
started for the next ones, such as the fresh sandbox that a grade needs. A spare that nobody took for a minute is let
go. A container is used once and never goes back.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ....errors import SandboxError
from .engine import LABEL, OWNER, Engine, Kind, owner
from .reaper import watch
from .stream import HEARTBEAT_S, Stream, beat_all

_IDLE_S = 60.0
_STARTS_AT_ONCE = 2


@dataclass
class Started:
    """A container whose worker waits for its first request."""

    container: str
    stream: Stream
    since: float = field(default_factory=time.monotonic)


class Pool:
    """What this process has running; shared by its event loops and threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engines: dict[tuple[str, str], Engine] = {}
        self._spares: dict[tuple[str, str], list[Started]] = {}
        self._coming: dict[tuple[str, str], int] = {}
        self._starter = ThreadPoolExecutor(_STARTS_AT_ONCE, "etude-container")
        self._stop = threading.Event()
        self._closing = False
        self._reapers: dict[str, subprocess.Popen[bytes]] = {}

    def engine(self, kind: Kind) -> Engine:
        """A connection, made once; leftovers of dead servers are removed then. Blocks."""
        key = (kind.name, kind.address())
        with self._lock:
            if key in self._engines:
                return self._engines[key]
            engine = Engine(kind)
            engine.remove_leftovers()
            if not self._engines:
                threading.Thread(target=self._keep, name="etude-heartbeat", daemon=True).start()
            self._engines[key] = engine
            if kind.name not in self._reapers:
                self._reapers[kind.name] = watch(kind)
            return engine

    def forget_engine(self, engine: Engine) -> None:
        """After it failed: the next sandbox connects anew."""
        with self._lock:
            self._engines = {key: one for key, one in self._engines.items() if one is not engine}

    @property
    def ready(self) -> list[str]:
        """Containers of spares that wait."""
        with self._lock:
            return [one.container for spares in self._spares.values() for one in spares if not one.stream.closed]

    def take_spare(self, engine: Engine, config: Mapping[str, Any]) -> Started | None:
        """One that is ready, if there is one."""
        with self._lock:
            spares = self._spares.get(_key(engine, config), [])
            while spares:
                spare = spares.pop()
                if not spare.stream.closed:
                    return spare
        return None

    def start(self, engine: Engine, config: Mapping[str, Any]) -> Started:
        """A new container. Blocks for some tenths of a second; raises SandboxError."""
        container, attached = engine.start(config, f"etude-{os.getpid()}-{os.urandom(4).hex()}")
        return Started(container, Stream(attached, engine.kind.name))

    def refill(self, engine: Engine, config: Mapping[str, Any]) -> None:
        """See to it that the next ones find theirs ready; returns at once."""
        key, wanted = _key(engine, config), _warm()
        with self._lock:
            missing = wanted - len(self._spares.get(key, [])) - self._coming.get(key, 0)
            self._coming[key] = self._coming.get(key, 0) + max(0, missing)
        for _ in range(missing):
            try:
                self._starter.submit(self._add_spare, engine, config, key)
            except RuntimeError:  # the interpreter is ending
                return

    def _add_spare(self, engine: Engine, config: Mapping[str, Any], key: tuple[str, str]) -> None:
        try:
            spare = None if self._closing else self.start(engine, config)
        except SandboxError:
            spare = None  # whoever needs a sandbox next starts its own, and says why it cannot
        with self._lock:
            self._coming[key] -= 1
            if spare is not None and not self._closing:
                self._spares.setdefault(key, []).append(spare)
                return
        if spare is not None:
            spare.stream.close()

    def _keep(self) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            beat_all()
            now = time.monotonic()
            with self._lock:
                old = [one for spares in self._spares.values() for one in spares if now - one.since > _IDLE_S]
                for key, spares in self._spares.items():
                    self._spares[key] = [one for one in spares if one not in old]
            for spare in old:
                spare.stream.close()

    def close(self) -> None:
        """Let go of the spares and remove what this process still has."""
        self._closing = True
        self._stop.set()
        self._starter.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            spares = [spare for spares in self._spares.values() for spare in spares]
            self._spares.clear()
            self._coming.clear()
        for spare in spares:
            spare.stream.close()
        for engine in self._engines.values():
            _remove_own(engine)
        for reaper in self._reapers.values():
            # Nothing is left for it to do.
            reaper.kill()
            reaper.wait()

    def abandon(self) -> None:
        """In a forked child: the parent's containers are the parent's."""
        for reaper in self._reapers.values():
            if reaper.stdin is not None:
                reaper.stdin.close()
        for spare in (spare for spares in self._spares.values() for spare in spares):
            spare.stream.close()


def _remove_own(engine: Engine) -> None:
    """Whatever of this process's the engine has not removed by itself yet."""
    try:
        with engine.errors("list its containers"):
            mine = engine.api.containers(all=True, filters={"label": [f"{LABEL}=1", f"{OWNER}={owner()}"]})
        for container in mine:
            engine.remove(container["Id"])
    except SandboxError:
        return


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
    """This process's pool."""
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
