"""The server process: its socket, its limits, how it starts and how a signal stops it."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from ..client import KEY_VARIABLE
from ..client_socket import KEEPALIVE
from ..environments.openenv import PenaltySettings
from .access import RateSettings, names_from_environment
from .admission import ServerLimits
from .connections import read_seconds, reconnect_seconds
from .connections.protocol import SteadyProtocol
from .guard import MAX_BODY
from .log_lines import configure
from .preparation import read_prepare
from .sessions import SessionServer
from .workers.front import run_front
from .workers.handover import Report
from .workers.place import Place, new_place
from .workers.pool import Pool
from .workers.settings import SETTING_ERRORS, ServerSettings, read_workers
from .workers.worker import Connections

log = logging.getLogger(__name__)

NO_KEY = (
    "this address is open to the network and needs no key: anyone who reaches it can play episodes on this machine; "
    f"set {KEY_VARIABLE} (`openssl rand -hex 32`), or listen on 127.0.0.1"
)
PING_INTERVAL_S = 20.0
PING_TIMEOUT_S = 900.0
"""Seconds without an answer to a ping before a connection is closed: a client may compute for minutes."""
SHUTDOWN_S = 30
"""Seconds that running requests have to end when the server stops."""


def serve(
    tasks_dir: str | Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    backend: str = "auto",
    *,
    environment: str | None = None,
    faults: str | None = None,
    knobs: Mapping[str, Any] | None = None,
    max_sessions: int | None = None,
    limits: Mapping[str, int | None] | None = None,
    mode: str | None = None,
    penalty: PenaltySettings | None = None,
    log_format: str | None = None,
    store: str | Path | None = None,
    allowed_hosts: Sequence[str] | None = None,
    rates: Mapping[str, int | None] | None = None,
    reconnect_s: float | None = None,
    workers: int | None = None,
    replica: str | None = None,
    drain_s: float | None = None,
    prepare: int | None = None,
    ready: Callable[[str], None] | None = None,
) -> int:
    """Serve until SIGINT or SIGTERM, then end every session; return the exit code.

    When it is not 0, one line on stderr says why. tasks_dir: default ETUDE_TASKS. environment: default ETUDE_ENV, else
    the one that the tasks name. faults: default ETUDE_FAULTS. port: 0 takes a free one. ready: called with the address
    instead of printing it. log_format: ``text`` or ``json``; default ETUDE_LOG, else ``text``. store: path or URL;
    default ETUDE_STORE, else a path in the home folder. limits, rates: fields of ``admission.ServerLimits`` and of
    ``access.RateSettings``; default: their environment variables. allowed_hosts: names that requests may be addressed
    to; default ETUDE_ALLOWED_HOSTS, else none on a loopback address and any elsewhere. reconnect_s: default
    ETUDE_RECONNECT, else 60. workers: processes that play sessions, 0: this one; default ETUDE_WORKERS, else 0.
    replica: name of this server among those behind a balancer; default ETUDE_REPLICA, else none. drain_s: seconds that
    running episodes get to end after the first signal; default ETUDE_DRAIN, else 0. prepare: tasks to make workspaces
    of before the server says that it is ready; default ETUDE_PREPARE, else 0. The API key is in ETUDE_API_KEY.
    The other arguments are those of ``create_app``.
    """
    try:
        listener = listen(host, port)
    except OSError as error:
        return _complain(_why_not(error, host, port))
    with listener:
        try:
            settings = ServerSettings(
                folder=tasks_dir if tasks_dir is not None else os.environ.get("ETUDE_TASKS", ""),
                environment=environment or os.environ.get("ETUDE_ENV", ""),
                backend=backend,
                faults=os.environ.get("ETUDE_FAULTS", "") if faults is None else faults,
                knobs=knobs,
                limits=ServerLimits.read(**{"sessions": max_sessions, **(limits or {})}),
                mode=mode,
                penalty=penalty,
                hosts=names_from_environment(allowed_hosts, loopback=ip_address(listener.getsockname()[0]).is_loopback),
                rates=RateSettings.read(**(rates or {})),
                reconnect_s=reconnect_seconds(reconnect_s),
                log_format=log_format or os.environ.get("ETUDE_LOG") or "text",
                store=store or os.environ.get("ETUDE_STORE", ""),
                replica=os.environ.get("ETUDE_REPLICA", "") if replica is None else replica,
                drain_s=read_seconds("ETUDE_DRAIN", 0.0, "or more", drain_s),
                workers=read_workers() if workers is None else workers,
                prepare=read_prepare(prepare),
            )
            configure(settings.log_format, (os.environ.get(KEY_VARIABLE, ""),))
            place = new_place(settings.replica)
            app = None if settings.workers else settings.application(place)
        except SETTING_ERRORS as error:
            return _complain(str(error))
        return _serve(listener, settings, app, ready)


def _serve(
    listener: socket.socket, settings: ServerSettings, app: FastAPI | None, ready: Callable[[str], None] | None
) -> int:
    """Serve the application, or without one the workers, and return the exit code."""
    bound_host, bound_port = listener.getsockname()[:2]
    if not os.environ.get(KEY_VARIABLE) and not ip_address(bound_host).is_loopback:
        log.warning("%s", NO_KEY)
    address = f"http://{f'[{bound_host}]' if ':' in bound_host else bound_host}:{bound_port}"

    def started() -> None:
        if ready is not None:
            ready(address)
        else:
            print(f"serving {address}", flush=True)

    if app is None:
        pool = Pool(settings.workers, settings.replica, partial(_work, settings), [__name__])
        return asyncio.run(run_front(listener, pool, started, drains=settings.drain_s > 0))
    started()
    server = uvicorn_server(app, drain_s=settings.drain_s)
    _reduce_collections()
    server.run(sockets=[listener])
    return 0


def _work(settings: ServerSettings, place: Place, channel: socket.socket) -> None:
    """Run a worker at a place until it is stopped or the front ends, and exit."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        Path("/proc/self/comm").write_text(f"etude worker {place.worker}")  # the name that ps and top show
    try:
        configure(settings.log_format, (os.environ.get(KEY_VARIABLE, ""),))
        app = settings.application(place)
    except SETTING_ERRORS as error:
        sys.exit(_complain(str(error)))
    connections = Connections(channel)
    app.state.sessions.on_closed = lambda client: connections.report(Report("closed", client=client))
    server = uvicorn_server(app, drain_s=settings.drain_s, connections=connections)
    _reduce_collections()
    server.run(sockets=[])


def main() -> None:
    """Serve as the container does: HOST, PORT and the variables of ``serve`` configure it."""
    port = os.environ.get("PORT", "8000")
    if not port.isdigit():
        sys.exit(_complain(f"PORT is {port!r}: give a number"))
    sys.exit(serve(None, os.environ.get("HOST", "127.0.0.1"), int(port)))


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket whose connections notice a vanished peer. Raises OSError."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE.items():
            if hasattr(socket, option):
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        listener.bind((host, port))
        listener.listen(2048)
    except BaseException:
        listener.close()
        raise
    return listener


class Server(uvicorn.Server):
    """uvicorn's server, which may let episodes end before it stops, and takes connections from a front.

    ``drain_s``: seconds that running episodes get after ``stop``. An application without ``sessions`` (``etude view``)
    plays none, and stops at once.
    """

    def __init__(
        self, config: uvicorn.Config, sessions: SessionServer | None, drain_s: float, connections: Connections | None
    ):
        super().__init__(config)
        self._sessions, self._drain_s, self._connections = sessions, drain_s, connections
        self._deadline: float | None = None

    def stop(self) -> None:
        """Stop after the drain; a second call stops at once. Safe in a signal handler."""
        if self._sessions is not None:
            self._sessions.admission.draining = True
        if self._deadline is not None or not self._drain_s:
            self.should_exit = True
        self._deadline = time.monotonic() + self._drain_s

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on a signal. A terminal sends SIGINT to workers too, which leave it to the front."""
        if sig == signal.SIGINT and self._connections is not None:
            return
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.stop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve."""
        await super().startup(sockets)
        if self._connections is not None:
            self._connections.start(self)

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop now; uvicorn asks ten times a second."""
        if self._deadline is not None:
            plays = self._sessions is not None and self._sessions.playing
            self.should_exit |= not plays or time.monotonic() > self._deadline
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all connections and the application."""
        if self._connections is not None:
            await self._connections.stop()
        await super().shutdown(sockets)


def uvicorn_server(
    app: FastAPI,
    *,
    ping_interval_s: float = PING_INTERVAL_S,
    ping_timeout_s: float = PING_TIMEOUT_S,
    drain_s: float = 0.0,
    connections: Connections | None = None,
) -> Server:
    """Return a uvicorn server with Etude's limits; ``run(sockets=[listen(...)])`` starts it.

    ``connections`` hands over those of a worker, whose ``sockets`` are empty.
    """
    config = uvicorn.Config(
        app,
        log_config=None,  # see ``log_lines``
        log_level="warning",
        ws=SteadyProtocol,
        ws_max_size=MAX_BODY,
        ws_ping_interval=ping_interval_s,
        ws_ping_timeout=ping_timeout_s,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    return Server(config, getattr(app.state, "sessions", None), drain_s, connections)


def _reduce_collections() -> None:
    """Freeze what is loaded and collect less often: turns make few cycles, and collections took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use: stop what listens there, or choose another with --port (0: any free)"
    return f"cannot listen on {host} port {port}: {error.strerror or error}"


def _complain(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)
    return 1
