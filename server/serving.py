"""The server process: its socket, its limits, how it starts and how a signal stops it."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from ..client import KEY_VARIABLE
from ..client_socket import KEEPALIVE
from ..environments.openenv import PenaltySettings
from ..errors import HubError, LLMError, TaskSetError, UnknownName
from .access import RateSettings, names_from_environment
from .admission import ServerLimits
from .application import create_app
from .connections import RECONNECT_VARIABLE, reconnect_seconds
from .connections.protocol import SteadyProtocol
from .guard import MAX_BODY
from .log_lines import configure
from .sources import environment_in, tasks_of
from .store import store_of

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
    ready: Callable[[str], None] | None = None,
) -> int:
    """Serve until SIGINT or SIGTERM, then end every session; return the exit code.

    When it is not 0, one line on stderr says why. tasks_dir: default ETUDE_TASKS. environment: default ETUDE_ENV, else
    the one that the tasks name. faults: default ETUDE_FAULTS. port: 0 takes a free one. ready: called with the address
    instead of printing it. log_format: ``text`` or ``json``; default ETUDE_LOG, else ``text``. store: path or URL;
    default ETUDE_STORE, else a path in the home folder. limits, rates: fields of ``admission.ServerLimits`` and of
    ``access.RateSettings``; default: their environment variables. allowed_hosts: names that requests may be addressed
    to; default ETUDE_ALLOWED_HOSTS, else none on a loopback address and any elsewhere. reconnect_s: default
    ETUDE_RECONNECT, else 60. The API key is in ETUDE_API_KEY. The other arguments are those of ``create_app``.
    """
    try:
        listener = listen(host, port)
    except OSError as error:
        return _complain(_why_not(error, host, port))
    with listener:
        try:
            folder = tasks_dir if tasks_dir is not None else os.environ.get("ETUDE_TASKS", "")
            api_key = os.environ.get(KEY_VARIABLE, "")
            bound_host, bound_port = listener.getsockname()[:2]
            is_loopback = ip_address(bound_host).is_loopback
            configure(log_format or os.environ.get("ETUDE_LOG") or "text", (api_key,))
            name = environment or os.environ.get("ETUDE_ENV") or environment_in(folder)
            app = create_app(
                tasks_of(name, folder, knobs),
                environment=name,
                backend=backend,
                faults=os.environ.get("ETUDE_FAULTS", "") if faults is None else faults,
                knobs=knobs,
                limits=ServerLimits.read(**{"sessions": max_sessions, **(limits or {})}),
                mode=mode,
                penalty=penalty,
                api_key=api_key,
                hosts=names_from_environment(allowed_hosts, loopback=is_loopback),
                rates=RateSettings.read(**(rates or {})),
                store=store_of(store or os.environ.get("ETUDE_STORE", "")),
                reconnect_s=reconnect_seconds(
                    os.environ.get(RECONNECT_VARIABLE, "") if reconnect_s is None else str(reconnect_s)
                ),
            )
        except (TaskSetError, HubError, UnknownName, LLMError, OSError, ValueError) as error:
            return _complain(str(error))
        if not api_key and not is_loopback:
            log.warning("%s", NO_KEY)
        address = f"http://{f'[{bound_host}]' if ':' in bound_host else bound_host}:{bound_port}"
        if ready is not None:
            ready(address)
        else:
            print(f"serving {address}", flush=True)
        server = uvicorn_server(app)
        _reduce_collections()
        with _signals_stop(server):
            server.run(sockets=[listener])
    return 0


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


def uvicorn_server(
    app: FastAPI, *, ping_interval_s: float = PING_INTERVAL_S, ping_timeout_s: float = PING_TIMEOUT_S
) -> uvicorn.Server:
    """Return a uvicorn server with Etude's limits; ``run(sockets=[listen(...)])`` starts it."""
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
    return uvicorn.Server(config)


def _reduce_collections() -> None:
    """Freeze what is loaded and collect less often: turns make few cycles, and collections took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@contextmanager
def _signals_stop(server: uvicorn.Server) -> Iterator[None]:
    """Let a signal stop the server and return normally; uvicorn would raise the signal again at its end."""

    def stop(*_: object) -> None:
        server.should_exit = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use: stop what listens there, or choose another with --port (0: any free)"
    return f"cannot listen on {host} port {port}: {error.strerror or error}"


def _complain(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)
    return 1
