"""The connection to Ray. Ray is imported here and nowhere else, and only with ``--ray``."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ...errors import GeneratorError

LOCAL = "local"
"""The address that starts Ray on this machine for one run."""
CONNECT_S = 5.0
"""Seconds in which a cluster must accept a connection."""
OBJECT_STORE_BYTES = 256 << 20
"""Shared memory of a Ray that is started here; candidates and rows are small."""


@contextmanager
def connected(address: str, cpus: int) -> Iterator[ModuleType]:
    """Yield the module ``ray``, connected to ``address``; ``local`` starts Ray here with ``cpus`` processors.

    Raises GeneratorError when Ray is not installed, when this process is connected already, or when no cluster answers.
    """
    if address == LOCAL or _is_loopback(address):
        # Without this, Ray listens on every interface of the machine, also when it is asked for 127.0.0.1.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise GeneratorError("--ray needs the package ray; run: pip install 'etude[ray]'") from None
    if ray.is_initialized():
        raise GeneratorError("this process is connected to Ray already; call ray.shutdown() first")
    with _own_sigterm():
        _connect(ray, address, cpus)
    # Ray prints messages about lost workers to stdout, where the result of the command belongs.
    ray._private.worker._worker_logs_enabled = False
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str, cpus: int) -> None:
    quiet = {"log_to_driver": False, "logging_level": "error"}
    if address == LOCAL:
        ray.init(num_cpus=cpus, include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet)
        return
    try:
        _refuse_closed_port(address)
        ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        cause = str(error).strip().split("\n")[0].rstrip(".")
        raise GeneratorError(
            f"no Ray cluster can be used at {address} ({cause}); start one with `ray start --head` and run this "
            "command on one of its nodes"
        ) from error


def _refuse_closed_port(address: str) -> None:
    """Raise OSError when nothing listens at ``HOST:PORT``: Ray itself would wait for more than a minute."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()


def _is_loopback(address: str) -> bool:
    return address.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]")


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Bring this process's handler of SIGTERM back after a block in which Ray sets its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
