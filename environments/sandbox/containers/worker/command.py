"""One command of the worker: its pipes, its limits, and the end of everything that it started."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ...keeper.capture import Capture
from ...kernel import linux
from ...kernel.cgroups import Group
from ...kernel.cpu_limits import CpuLimits
from ...kernel.launch import OPEN_FILES, become_command, become_user, lower_limit, restore_signals

_CHUNK = 1 << 16
_SWEEP_S = 20.0
_GROUPS = Path("/sys/fs/cgroup")

_libc = ctypes.CDLL(None, use_errno=True)
# By kind of System V object: the function, and its commands that return the highest index and the number at an index.
_IPC_CALLS = {"shm": (_libc.shmctl, 14, 13), "sem": (_libc.semctl, 19, 18), "msg": (_libc.msgctl, 12, 11)}


def _confine(uid: int, memory: int | None) -> None:
    """Give up rights, in the command's process; ``memory`` limits each of its processes."""
    Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
    if memory is not None:
        lower_limit(resource.RLIMIT_AS, memory)
    lower_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    lower_limit(resource.RLIMIT_CORE, 0)
    restore_signals()
    os.umask(0o022)
    become_user(uid)


@contextmanager
def as_user(uid: int) -> Iterator[None]:
    """Work on files with another user's rights."""
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


class Container:
    """What every command of a container shares."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.uid: int = settings["uid"]
        self.seccomp_program = base64.b64decode(settings["filter"])
        self.cores: float = settings["cores"]
        version = 2 if Path(_GROUPS, "cgroup.procs").exists() else 1
        names = ("memory", "cpu", "cpuacct")
        self._group = Group({name: _GROUPS if version == 2 else _GROUPS / name for name in names}, version)
        self._counts_cpu: bool = settings["cgroup"]
        self.killed_together = self._group.killed_together()
        """Whether the kernel kills the worker too when commands use all memory; then each process has a limit."""
        self.memory: int | None = settings["memory"] if self.killed_together else None

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all commands so far: the control group's without the worker's, else /proc's."""
        used = self._group.cpu_seconds() if self._counts_cpu else None
        return linux.cpu_seconds_below(os.getpid()) if used is None else used - time.process_time()

    def oom_kills(self) -> int:
        """Return how often the kernel has killed in this container for want of memory."""
        return self._group.oom_kills()


class Command:
    """A running command. ``send`` gets frames: ``O`` output, ``C`` the private channel."""

    def __init__(
        self,
        container: Container,
        request: dict[str, Any],
        stdin: int | None,
        send: Callable[[bytes, bytes], None],
    ) -> None:
        self._container = container
        self._send = send
        self._output = Capture(request["output_limit"], lambda data: send(b"O", data))
        channel = Capture(request["channel_limit"] or 0, lambda data: send(b"C", data), head_only=True)
        self._feeds: dict[int, Callable[[bytes], None]] = {}
        writers = [self._pipe(self._output.feed), self._pipe(channel.feed)]
        self._status, status = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._oom_before, self._cpu_before = container.oom_kills(), container.cpu_seconds()
        self._started = time.monotonic()
        self._deadline = self._started + request["timeout_s"]
        self._cpu_limits = CpuLimits(
            request["cpu_s"], request["idle_s"], container.cores, self._cpu_used, self._started
        )
        self._pid = os.fork()
        if self._pid == 0:
            source = os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin
            descriptors = {0: source, 1: writers[0], 2: writers[0]}
            if request["channel_limit"] is not None:
                descriptors[3] = writers[1]
            confine = partial(_confine, container.uid, container.memory)
            become_command(request, descriptors, status, confine, container.seccomp_program)
        for writer in (*writers, status):
            os.close(writer)

    def _pipe(self, feed: Callable[[bytes], None]) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reader, False)
        self._feeds[reader] = feed
        return writer

    @property
    def pipes(self) -> list[int]:
        """Return the descriptors to read from."""
        return list(self._feeds)

    def _cpu_used(self) -> float:
        return self._container.cpu_seconds() - self._cpu_before

    def read(self, pipe: int) -> bool:
        """Read one piece; return False when there is nothing more to read."""
        data = _read_some(pipe)
        if data:
            self._feeds[pipe](data)
        return bool(data)

    def exit_code(self) -> int | None:
        """Return the exit code, None while the command runs."""
        ended, status = os.waitpid(self._pid, os.WNOHANG)
        return _exit_code(status) if ended else None

    def is_over_limits(self, now: float) -> bool:
        """Return whether the command must be stopped as a timeout."""
        return now >= self._deadline or (now >= self._cpu_limits.next_check and self._cpu_limits.exceeded(now))

    def next_check(self) -> float:
        """Return when limits must be looked at again, in monotonic seconds."""
        return min(self._deadline, self._cpu_limits.next_check)

    def finish(self, code: int | None, *, stopped: bool, timed_out: bool) -> dict[str, Any]:
        """Kill everything that the command started, send the rest of its output and return the reply."""
        exited = _kill_all(self._pid)
        for pipe in self._feeds:
            while self.read(pipe):
                pass
        _remove_ipc_objects(self._container.uid)
        report = _read_some(self._status)
        for descriptor in (*self._feeds, self._status):
            os.close(descriptor)
        if code is None and not stopped:
            code = exited
        tail, dropped = self._output.result()
        self._send(b"O", tail)
        reply = {
            "timed_out": timed_out,
            "oom": self._container.oom_kills() > self._oom_before,
            "seconds": time.monotonic() - self._started,
            "cpu_seconds": self._cpu_used(),
            "dropped": dropped,
        }
        if report:
            reply.update(json.loads(report))
        elif code is not None:
            reply["exit-code"] = code
        return reply


def _kill_all(command: int) -> int | None:
    """Kill every other process until none is left; return the command's exit code, if it ends here."""
    code = None
    give_up = time.monotonic() + _SWEEP_S
    while True:
        try:
            # From the first process of a namespace: all others in it at once, whatever they call themselves.
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == command:
            code = _exit_code(status)
        elif not pid:
            if time.monotonic() > give_up:
                os._exit(4)
            time.sleep(0.0002)


def _exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _remove_ipc_objects(uid: int) -> None:
    """Remove what outlives processes in the namespace: System V objects and message queues."""
    for kind, (remove, _, _) in _IPC_CALLS.items():
        for number in _ipc_objects(kind):
            with as_user(uid):
                remove(number, *((0, 0) if kind == "sem" else (0, None)))
    if os.path.isdir("/dev/mqueue") and os.listdir("/dev/mqueue"):
        with as_user(uid):
            for name in os.listdir("/dev/mqueue"):
                os.unlink("/dev/mqueue/" + name)


def _ipc_objects(kind: str) -> list[int]:
    """Return the numbers of all System V objects of a kind; another runtime than the engine's own may not list them."""
    table = Path("/proc/sysvipc", kind)
    if table.exists():
        return [int(line.split()[1]) for line in table.read_text("ascii").splitlines()[1:]]
    function, info, stat = _IPC_CALLS[kind]
    buffer = ctypes.create_string_buffer(512)
    middle = (0,) if kind == "sem" else ()
    numbers = [function(index, *middle, stat, buffer) for index in range(function(0, *middle, info, buffer) + 1)]
    return [number for number in numbers if number >= 0]


def _read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return b""
