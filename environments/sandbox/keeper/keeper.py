"""The keeper: one small process per server that owns whatever could outlive it. Stdlib only, single-threaded.

It starts, times, kills and reaps every command and holds every mount namespace, control group and folder. When the
server dies, even by SIGKILL, the keeper kills all and exits; when the keeper is killed, its children die with it.

The server hands over one SOCK_SEQPACKET socket per sandbox through the control socket. On it, one JSON request
(``open``, then ``exec``, ``layer``, ``new_layer``, ``reset``, ``close``; ``kill`` at any time) gets one JSON reply;
descriptors travel beside. A closed socket means: nobody needs this sandbox any more.
"""

from __future__ import annotations

import array
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ..kernel import linux
from ..kernel.cgroups import Group, Groups
from ..kernel.cpu_limits import CpuLimits

MESSAGE_BYTES = 256 * 1024
_TERM_GRACE_S = 5.0
_RETRY_S = 0.05
_LONGEST_WAIT_S = 3600.0
_RESERVED = 16


class Unavailable(Exception):
    """This machine cannot run this backend: the reason and the remedy in one line."""


class Driver(Protocol):
    """What differs between the backends: where commands run, and how they are stopped."""

    kill_signal: signal.Signals
    helpers: set[int]
    """Children of ours that belong to no command, such as one that removes a folder."""

    def open(self, spec: dict[str, Any], group: Group | None) -> Any:
        """Make a sandbox's state. Raises Unavailable or OSError."""
        ...

    def start(self, state: Any, group: Group | None, request: dict[str, Any], fds: dict[str, int], status: int) -> int:
        """Fork the command's monitor, which writes JSON lines to ``status``; its pid."""
        ...

    def reset(self, state: Any, filled: bool) -> list[int]:
        """Drop what was written, or go on with the filled new layer; the descriptors to let go of."""
        ...

    def layer(self, state: Any) -> list[int]:
        """Descriptors that show what was written."""
        ...

    def new_layer(self, state: Any) -> list[int]:
        """Descriptors of an empty writable layer that the server may fill before the next reset."""
        ...

    def close(self, state: Any) -> list[int]:
        """Forget a sandbox; the descriptors to let go of."""
        ...


@dataclass(eq=False)
class Run:
    """One running command: its monitor, and what else must be dead before the server hears of the end."""

    box: Box
    pid: int
    status: int
    started: float
    deadline: float
    oom_before: int
    cpu_before: float | None
    """CPU seconds that the control group had used before; None where none counts them."""
    cpu_limits: CpuLimits | None = None
    reaped_cpu: float = 0.0
    """CPU seconds of the processes that the keeper waited for, and of their children."""
    highest_cpu: float = 0.0
    """The most CPU seconds seen at once: a killed PID namespace does not report those of its processes."""
    waiting: set[int] = field(default_factory=set)
    timed_out: bool = False
    killed: bool = False
    report: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Box:
    """One sandbox, as the keeper knows it."""

    socket: socket.socket
    state: Any = None
    group: Group | None = None
    run: Run | None = None


class Keeper:
    def __init__(self, control: socket.socket, server: int, driver: Driver) -> None:
        self._control = control
        self._driver = driver
        self._groups = Groups()
        self._closer = Closer()
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._boxes: set[Box] = set()
        self._runs: set[Run] = set()
        self._processes: dict[int, tuple[int, Run]] = {}
        self._stale: list[Group] = []
        self._serving = True
        self._watch(control.fileno(), self._accept)
        self._watch(server, self._stop)

    def serve(self) -> None:
        """Work until the server is gone, then leave nothing behind."""
        while self._serving:
            self._turn()
        for box in list(self._boxes):
            self._drop(box)
        give_up = time.monotonic() + 2 * _TERM_GRACE_S
        while (self._runs or self._boxes or self._stale) and time.monotonic() < give_up:
            self._turn()

    def _turn(self) -> None:
        now = time.monotonic()
        for run in list(self._runs):
            if run.deadline <= now:
                self._expire(run)
            elif run.cpu_limits is not None and run.cpu_limits.next_check <= now and run.cpu_limits.exceeded(now):
                self._time_out(run)
        wait = min((_next_event(run) for run in self._runs), default=float("inf")) - time.monotonic()
        if self._stale:
            self._stale = [group for group in self._stale if not group.remove()]
            wait = min(wait, _RETRY_S)
        for fd, _ in self._epoll.poll(min(max(0.0, wait), _LONGEST_WAIT_S)):
            # A handler may have dropped a later descriptor of this batch.
            if fd in self._handlers:
                self._handlers[fd]()

    def _watch(self, fd: int, handler: Callable[[], None]) -> None:
        self._handlers[fd] = handler
        self._epoll.register(fd, select.EPOLLIN)

    def _unwatch(self, fd: int) -> None:
        self._handlers.pop(fd)
        self._epoll.unregister(fd)

    def _stop(self) -> None:
        self._serving = False

    # Requests

    def _accept(self) -> None:
        message, fds = _receive(self._control)
        if not message and not fds:
            self._stop()
            self._unwatch(self._control.fileno())
        for fd in fds:
            box = Box(socket.socket(fileno=fd))
            box.socket.setblocking(False)
            self._boxes.add(box)
            self._watch(fd, partial(self._request, box))

    def _request(self, box: Box) -> None:
        message, fds = _receive(box.socket)
        try:
            if not message:
                self._drop(box)
                return
            request = json.loads(message)
            if request.get("in_file"):
                request = json.loads(os.pread(fds[0], os.fstat(fds[0]).st_size, 0))
                os.close(fds.pop(0))
            getattr(self, f"_do_{request['op']}")(box, request, fds)
        except Unavailable as error:
            self._reply(box, {"unavailable": str(error)})
        except (OSError, ValueError, KeyError, AttributeError) as error:
            self._reply(box, {"error": f"{type(error).__name__}: {error}"})
        finally:
            for fd in fds:
                os.close(fd)

    def _reply(self, box: Box, answer: dict[str, Any], fds: list[int] | None = None) -> None:
        try:
            socket.send_fds(box.socket, [json.dumps(answer).encode()], fds or [])
        except OSError:
            self._drop(box)

    def _do_open(self, box: Box, request: dict[str, Any], fds: list[int]) -> None:
        box.group = self._groups.create(request["limits"])
        box.state = self._driver.open(request, box.group)
        self._reply(box, {"limits": "cgroup" if box.group else "rlimit"})

    def _do_exec(self, box: Box, request: dict[str, Any], fds: list[int]) -> None:
        if box.run is not None or box.state is None:
            raise ValueError("one command at a time, after open")
        named = dict(zip(request["fds"], fds, strict=True))
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        started = time.monotonic()
        oom = box.group.oom_kills() if box.group else 0
        cpu = box.group.cpu_seconds() if box.group else None
        try:
            pid = self._driver.start(box.state, box.group, request, named, writer)
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        run = Run(box, pid, reader, started, started + request["timeout_s"], oom, cpu)
        cpu_s, idle_s = request["cpu_s"], request["idle_s"]
        if cpu_s is not None or idle_s is not None:
            cores = float(box.state.spec["limits"]["cpus"]) if box.group else float(os.cpu_count() or 1)
            run.cpu_limits = CpuLimits(cpu_s, idle_s, cores, partial(_cpu_seconds, run), started)
        box.run = run
        self._runs.add(run)
        self._wait_for(pid, run)

    def _do_kill(self, box: Box, request: dict[str, Any], fds: list[int]) -> None:
        if box.run is not None:
            self._kill(box.run)

    def _do_reset(self, box: Box, request: dict[str, Any], fds: list[int]) -> None:
        self._closer.close(self._driver.reset(box.state, request.get("filled", False)))
        self._reply(box, {})

    def _do_layer(self, box: Box, request: dict[str, Any], fds: list[int]) -> None:
        self._reply(box, {}, self._driver.layer(box.state))

    def _do_new_layer(self, box: Box, request: dict[str, Any], fds: list[int]) -> None:
        self._reply(box, {}, self._driver.new_layer(box.state))

    def _do_close(self, box: Box, request: dict[str, Any], fds: list[int]) -> None:
        if box.run is None:
            self._discard(box)
            self._reply(box, {})
        self._drop(box)

    def _drop(self, box: Box) -> None:
        """Nobody listens any more: kill what runs, then discard."""
        if box in self._boxes and box.socket.fileno() >= 0:
            self._unwatch(box.socket.fileno())
            box.socket.close()
        if box.run is not None:
            self._kill(box.run)
            return
        self._discard(box)
        self._boxes.discard(box)

    def _discard(self, box: Box) -> None:
        if box.state is not None:
            self._closer.close(self._driver.close(box.state))
            box.state = None
        if box.group is not None:
            if not box.group.remove():
                self._stale.append(box.group)
            box.group = None

    # Runs

    def _wait_for(self, pid: int, run: Run) -> None:
        pidfd = os.pidfd_open(pid)
        run.waiting.add(pid)
        self._processes[pid] = (pidfd, run)
        self._watch(pidfd, self._reap)

    def _reap(self) -> None:
        """Collect every dead child; a run is over when all it waits for are."""
        while True:
            try:
                pid, _, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._driver.helpers.discard(pid)
            if pid in self._processes:
                pidfd, run = self._processes.pop(pid)
                self._unwatch(pidfd)
                os.close(pidfd)
                run.waiting.discard(pid)
                run.reaped_cpu += usage.ru_utime + usage.ru_stime
                if pid == run.pid:
                    self._monitor_ended(run)
                if not run.waiting:
                    self._finish(run)

    def _monitor_ended(self, run: Run) -> None:
        """The monitor may be gone before what it watched: then that is our child by now, and must die first."""
        run.cpu_limits = None
        try:
            text = os.read(run.status, 65536)
        except BlockingIOError:
            text = b""
        os.close(run.status)
        for line in text.splitlines():
            run.report.update(json.loads(line))
        left: set[int] = set()
        inner = run.report.get("child-pid")
        if inner is not None:
            left = {inner} if self._is_live_child(inner, run) else set()
        elif not {"exit-code", "refused", "failed"} & run.report.keys():
            left = linux.descendants(os.getpid(), {*self._processes, self._closer.pid, *self._driver.helpers})
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                self._wait_for(pid, run)
            except ProcessLookupError:
                continue

    def _is_live_child(self, pid: int, run: Run) -> bool:
        """Return whether ``pid`` is a live child of the keeper; a dead one is reaped and its CPU time counted."""
        try:
            dead, _, usage = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            return False
        run.reaped_cpu += usage.ru_utime + usage.ru_stime
        return dead == 0

    def _finish(self, run: Run) -> None:
        box, report = run.box, run.report
        self._runs.discard(run)
        box.run = None
        oom = bool(box.group and box.group.oom_kills() > run.oom_before)
        if box.socket.fileno() < 0:
            self._drop(box)
            return
        times = {"seconds": time.monotonic() - run.started, "cpu_seconds": _cpu_seconds(run)}
        answer = {**report, "timed_out": run.timed_out, "oom": oom, **times}
        self._reply(box, answer)

    def _expire(self, run: Run) -> None:
        if run.killed:
            # It was asked to stop and did not.
            os.kill(run.pid, signal.SIGKILL)
            run.deadline = float("inf")
            return
        self._time_out(run)

    def _time_out(self, run: Run) -> None:
        run.timed_out = True
        self._kill(run)

    def _kill(self, run: Run) -> None:
        if run.killed:
            return
        run.killed = True
        run.cpu_limits = None
        _cpu_seconds(run)
        if run.pid in run.waiting:
            os.kill(run.pid, self._driver.kill_signal)
        run.deadline = time.monotonic() + _TERM_GRACE_S if run.pid in run.waiting else float("inf")


class Closer:
    """A child that closes descriptors for us: dropping a mount namespace frees its files' memory, which takes time."""

    def __init__(self) -> None:
        keep, self._socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                linux.die_with_parent(parent, signal.SIGKILL)
                os.dup2(keep.fileno(), 3)
                os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
                with socket.socket(fileno=3) as end:
                    while True:
                        message, fds = _receive(end)
                        if not message:
                            break
                        for fd in fds:
                            os.close(fd)
            finally:
                os._exit(0)
        keep.close()
        self._socket.settimeout(1.0)

    def close(self, fds: list[int]) -> None:
        if fds:
            try:
                socket.send_fds(self._socket, [b"x"], fds)
            finally:
                for fd in fds:
                    os.close(fd)


def _receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """One message and its descriptors; nothing at all when the other side is gone."""
    try:
        room = socket.CMSG_LEN(16 * 4)
        message, ancillary, _, _ = sock.recvmsg(MESSAGE_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    except BlockingIOError:
        return b" ", []
    except OSError:
        return b"", []
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return message, list(fds)


def _next_event(run: Run) -> float:
    """Return when the run must be looked at again, in monotonic seconds."""
    return run.deadline if run.cpu_limits is None else min(run.deadline, run.cpu_limits.next_check)


def _cpu_seconds(run: Run) -> float:
    """Return the CPU seconds that a run has used: its control group's, else those of its processes."""
    used = run.box.group.cpu_seconds() if run.box.group else None
    if used is not None and run.cpu_before is not None:
        return used - run.cpu_before
    run.highest_cpu = max(run.highest_cpu, run.reaped_cpu + sum(map(linux.cpu_seconds_below, run.waiting)))
    return run.highest_cpu


def main(kind: str) -> None:
    """Serve on descriptor 3, as the child of the server. ``kind`` is the backend's name."""
    os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    control = socket.socket(fileno=fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, _RESERVED))
    # Taken, so that nothing of ours ever has a number that a command's descriptors are placed on.
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
    # What is here to stay is not touched again, so that forked children share its pages.
    gc.freeze()
    Keeper(control, server, driver).serve()
