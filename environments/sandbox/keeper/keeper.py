"""The keeper: one small process per server that owns whatever could outlive it. Stdlib only, single-threaded.

It starts, times, kills and reaps every command and holds every mount namespace, control group and folder. When the
server dies, even by SIGKILL, the keeper kills everything and exits; when the keeper is killed, its children die too.

The server hands over one SOCK_SEQPACKET socket per sandbox through the control socket. On it, one JSON request
(``open``, then ``exec``, ``layer``, ``new_layer``, ``reset``, ``close``; ``kill`` at any time) gets one JSON reply;
descriptors travel beside. A closed socket drops its sandbox.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import resource
import signal
import socket
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..kernel import linux
from ..kernel.cgroups import Group, Groups
from .driver import Driver, Unavailable
from .messages import Closer, receive
from .runs import Loop, Run, Runs

_RETRY_S = 0.05
_LONGEST_WAIT_S = 3600.0
_PATIENCE_S = 10.0
_RESERVED = 16


@dataclass(eq=False)
class HeldSandbox:
    """One sandbox: its socket to the server, the driver's state, its control group and its running command."""

    socket: socket.socket
    state: Any = None
    group: Group | None = None
    cores: float = 1.0
    run: Run | None = None


class Keeper:
    """The requests of a server's sandboxes, and their answers."""

    def __init__(self, control: socket.socket, server: int, driver: Driver) -> None:
        self._control = control
        self._driver = driver
        self._groups = Groups()
        self._closer = Closer()
        self._loop = Loop()
        self._runs = Runs(self._loop, driver, self._closer.pid)
        self._sandboxes: set[HeldSandbox] = set()
        self._stale: list[Group] = list(self._groups.stale)
        self._serving = True
        self._loop.watch(control.fileno(), self._accept)
        self._loop.watch(server, self._stop)

    def serve(self) -> None:
        """Work until the server is gone, then leave nothing behind."""
        while self._serving:
            self._turn()
        for sandbox in list(self._sandboxes):
            self._drop(sandbox)
        give_up = time.monotonic() + _PATIENCE_S
        while (self._runs or self._sandboxes or self._stale) and time.monotonic() < give_up:
            self._turn()

    def _turn(self) -> None:
        wait = min(self._runs.enforce_limits(), _LONGEST_WAIT_S)
        if self._stale:
            self._stale = [group for group in self._stale if not group.remove()]
            wait = min(wait, _RETRY_S)
        self._loop.turn(wait)

    def _stop(self) -> None:
        self._serving = False

    # Requests

    def _accept(self) -> None:
        message, descriptors = _received(self._control)
        if message == b"":
            self._stop()
            self._loop.unwatch(self._control.fileno())
        for descriptor in descriptors:
            sandbox = HeldSandbox(socket.socket(fileno=descriptor))
            sandbox.socket.setblocking(False)
            self._sandboxes.add(sandbox)
            self._loop.watch(descriptor, partial(self._answer, sandbox))

    def _answer(self, sandbox: HeldSandbox) -> None:
        message, descriptors = _received(sandbox.socket)
        try:
            if message is None:
                return
            if not message:
                self._drop(sandbox)
                return
            request = json.loads(message)
            if request.get("in_file"):
                request = json.loads(os.pread(descriptors[0], os.fstat(descriptors[0]).st_size, 0))
                os.close(descriptors.pop(0))
            getattr(self, f"_do_{request['op']}")(sandbox, request, descriptors)
        except Unavailable as error:
            self._reply(sandbox, {"unavailable": str(error)})
        except (OSError, ValueError, KeyError, AttributeError) as error:
            self._reply(sandbox, {"error": f"{type(error).__name__}: {error}"})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _reply(self, sandbox: HeldSandbox, answer: dict[str, Any], descriptors: list[int] | None = None) -> None:
        try:
            socket.send_fds(sandbox.socket, [json.dumps(answer).encode()], descriptors or [])
        except OSError:
            self._drop(sandbox)

    def _do_open(self, sandbox: HeldSandbox, request: dict[str, Any], descriptors: list[int]) -> None:
        sandbox.group = self._groups.create(request["limits"])
        # Without a group nothing limits how many cores a command uses.
        sandbox.cores = float(request["limits"]["cpus"]) if sandbox.group else float(os.cpu_count() or 1)
        sandbox.state = self._driver.open(request, sandbox.group)
        self._reply(sandbox, {"limits": "cgroup" if sandbox.group else "rlimit"})

    def _do_exec(self, sandbox: HeldSandbox, request: dict[str, Any], descriptors: list[int]) -> None:
        if sandbox.run is not None or sandbox.state is None:
            raise ValueError("one command at a time, after open")
        by_name = dict(zip(request["fds"], descriptors, strict=True))
        sandbox.run = self._runs.start(
            sandbox.state, sandbox.group, request, by_name, sandbox.cores, partial(self._on_end, sandbox)
        )

    def _on_end(self, sandbox: HeldSandbox, report: dict[str, Any]) -> None:
        sandbox.run = None
        if sandbox.socket.fileno() < 0:
            self._drop(sandbox)
        else:
            self._reply(sandbox, report)

    def _do_kill(self, sandbox: HeldSandbox, request: dict[str, Any], descriptors: list[int]) -> None:
        if sandbox.run is not None:
            self._runs.kill(sandbox.run)

    def _do_reset(self, sandbox: HeldSandbox, request: dict[str, Any], descriptors: list[int]) -> None:
        self._closer.close(self._driver.reset(sandbox.state, request.get("filled", False)))
        self._reply(sandbox, {})

    def _do_layer(self, sandbox: HeldSandbox, request: dict[str, Any], descriptors: list[int]) -> None:
        self._reply(sandbox, {}, self._driver.layer(sandbox.state))

    def _do_new_layer(self, sandbox: HeldSandbox, request: dict[str, Any], descriptors: list[int]) -> None:
        self._reply(sandbox, {}, self._driver.new_layer(sandbox.state))

    def _do_close(self, sandbox: HeldSandbox, request: dict[str, Any], descriptors: list[int]) -> None:
        if sandbox.run is None:
            self._discard(sandbox)
            self._reply(sandbox, {})
        self._drop(sandbox)

    def _drop(self, sandbox: HeldSandbox) -> None:
        """Kill what runs, then discard the sandbox; nothing listens to its answers any more."""
        if sandbox in self._sandboxes and sandbox.socket.fileno() >= 0:
            self._loop.unwatch(sandbox.socket.fileno())
            sandbox.socket.close()
        if sandbox.run is not None:
            self._runs.kill(sandbox.run)
            return
        self._discard(sandbox)
        self._sandboxes.discard(sandbox)

    def _discard(self, sandbox: HeldSandbox) -> None:
        if sandbox.state is not None:
            self._closer.close(self._driver.close(sandbox.state))
            sandbox.state = None
        if sandbox.group is not None:
            if not sandbox.group.remove():
                self._stale.append(sandbox.group)
            sandbox.group = None


def _received(sock: socket.socket) -> tuple[bytes | None, list[int]]:
    """Return one message and its descriptors: empty when the other side is gone, None when it has sent nothing."""
    try:
        return receive(sock)
    except BlockingIOError:
        return None, []
    except OSError:
        return b"", []


def main(kind: str) -> None:
    """Serve on descriptor 3, as the child of the server. ``kind`` is the backend's name."""
    os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    control = socket.socket(fileno=fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, _RESERVED))
    # So that no descriptor of the keeper ever has a number that a command's descriptors are placed on.
    for number in range(3, _RESERVED):
        os.dup2(0, number, inheritable=False)
    server = os.pidfd_open(os.getppid())
    os.umask(0o022)
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    linux.become_subreaper()
    driver: Driver
    if kind == "bubblewrap":
        from .bwrap_driver import NamespaceDriver

        driver = NamespaceDriver()
    else:
        from .process_driver import GuardDriver

        driver = GuardDriver()
    linux.set_dumpable(False)
    # Objects that live until the end are not touched again, so that forked children share their memory.
    gc.freeze()
    Keeper(control, server, driver).serve()
