"""The worker: the only long-lived process of a container. Stdlib only, Python 3.8; its text is an argument of python3.

It runs as root without the rights of root (it may become the sandbox user, and kill), and not dumpable. Frames come on
standard input and go to standard output, which no command ever holds: a kind (one byte), a length, the content.
In: ``B`` part of a blob, ``Q`` a request that may use it, ``K`` kill what runs, ``H`` the server lives.
Out: ``O`` output, ``C`` private channel, ``B`` part of a blob, ``R`` the reply.
When input ends, or nothing comes for a minute, the worker exits, and as the container's first process takes everything
with it.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import json
import mmap
import os
import resource
import select
import signal
import struct
import time
from collections import deque
from pathlib import Path
from typing import Any

from ..kernel import linux
from ..kernel.cpu_limits import CpuLimits
from .pack import Base, LimitExceeded, Packer, end_of, open_file, unpack, walk, wipe

FRAME = struct.Struct("<cI")
CHANGE = struct.Struct("<cIB?Q")
"""A change: kind, length of its path, executable, whether content follows, its size; then path, size of content."""
UID = 65532
ROOTS = {"/workspace": 0o755, "/tmp": 0o1777, "/dev/shm": 0o1777}
_DEAD_MAN_S = 60.0
_SWEEP_S = 20.0
_CHUNK = 1 << 16
_DEEPEST_CHANGE = 127
_OPEN_FILES = 4096
_FIRST_FREE = 100
# The container's own counters of CPU time, what their lines begin with, and their unit in seconds.
_CPU_COUNTERS = (
    ("/sys/fs/cgroup/cpu.stat", "usage_usec ", 1e-6),
    ("/sys/fs/cgroup/cpuacct/cpuacct.usage", "", 1e-9),
)
_OOM_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")

_libc = ctypes.CDLL(None, use_errno=True)


class Tail:
    """The last bytes of a stream, and how many came."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        self._kept += data
        if len(self._kept) > 2 * self._room:
            del self._kept[: len(self._kept) - self._room]

    def result(self) -> bytes:
        return bytes(self._kept[max(0, len(self._kept) - self._room) :])


class Run:
    """One command: its pipes and what came through them."""

    def __init__(self, request: dict[str, Any]) -> None:
        limit = request["output_limit"]
        self.head_room = limit - limit // 2
        self.tail = Tail(limit // 2)
        self.channel_room = request["channel_limit"] or 0
        self.output, self.output_writer = os.pipe2(os.O_CLOEXEC)
        self.channel, self.channel_writer = os.pipe2(os.O_CLOEXEC)
        self.status, self.status_writer = os.pipe2(os.O_CLOEXEC)
        for fd in (self.output, self.channel, self.status):
            os.set_blocking(fd, False)

    def close(self) -> None:
        for fd in (self.output, self.channel, self.status):
            os.close(fd)

    def close_writers(self) -> None:
        for fd in (self.output_writer, self.channel_writer, self.status_writer):
            os.close(fd)


class Worker:
    def __init__(self) -> None:
        self._input = bytearray()
        self._requests: deque[tuple[dict[str, Any], int | None]] = deque()
        self._blob: int | None = None
        self._kill = False
        self._base: Base | None = None
        self._lower: Any = b""
        self._filter = b""
        self._counts_cpu = False
        self._cores = 1.0
        self._heard = time.monotonic()
        self._outgoing = bytearray()
        self._wake, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        os.set_blocking(0, False)
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)

    def serve(self) -> None:
        while True:
            while not self._requests:
                self._wait(_DEAD_MAN_S)
            request, blob = self._requests.popleft()
            self._kill = False
            try:
                reply = getattr(self, "_do_" + request["op"])(request, blob)
            except LimitExceeded as error:
                reply = {"limit": str(error)}
            except (OSError, ValueError, KeyError, AttributeError) as error:
                reply = {"error": f"{type(error).__name__}: {error}"}
            finally:
                if blob is not None:
                    os.close(blob)
            self._send(b"R", json.dumps(reply).encode())

    # Frames

    def _wait(self, timeout: float) -> list[int]:
        """Wait for input, a child's end or a pipe; the pipes that have something. Input is taken in here."""
        ready = [fd for fd, _ in self._poll.poll(max(0.0, timeout) * 1000)]
        if self._wake in ready:
            os.read(self._wake, 4096)
        if 0 in ready:
            self._take_input()
        elif time.monotonic() - self._heard > _DEAD_MAN_S:
            os._exit(3)
        return [fd for fd in ready if fd not in (0, self._wake)]

    def _take_input(self) -> None:
        data = os.read(0, 1 << 18)
        if not data:
            os._exit(0)
        self._heard = time.monotonic()
        self._input += data
        while len(self._input) >= FRAME.size:
            kind, length = FRAME.unpack_from(self._input)
            if len(self._input) < FRAME.size + length:
                return
            content = bytes(self._input[FRAME.size : FRAME.size + length])
            del self._input[: FRAME.size + length]
            if kind == b"B":
                if self._blob is None:
                    self._blob = os.memfd_create("etude", os.MFD_CLOEXEC)
                _write_all(self._blob, content)
            elif kind == b"Q":
                if self._blob is not None:
                    os.lseek(self._blob, 0, os.SEEK_SET)
                self._requests.append((json.loads(content.decode()), self._blob))
                self._blob = None
            elif kind == b"K":
                self._kill = True

    def _send(self, kind: bytes, content: bytes) -> None:
        _write_all(1, FRAME.pack(kind, len(content)) + content)

    def _emit(self, content: bytes) -> None:
        """Collect a blob's parts, and send them when they are worth a frame."""
        self._outgoing += content
        if len(self._outgoing) >= _CHUNK:
            self._flush()

    def _flush(self) -> None:
        if self._outgoing:
            self._send(b"B", bytes(self._outgoing))
            self._outgoing.clear()

    # Requests

    def _do_open(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        self._filter = base64.b64decode(request["filter"])
        self._cores = request["cores"]
        self._counts_cpu = request["cgroup"]
        for path in ROOTS:
            # Not every engine gives a folder in memory to a user.
            if os.stat(path).st_uid != UID:
                os.chown(path, UID, UID)
        self._lower = _mapped(blob)
        self._base = Base(self._lower)
        return self._do_reset(request, None)

    def _do_reset(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        with AsUser():
            self._wipe()
            root = _open_root("/workspace")
            try:
                unpack(self._lower, 0, root, None)
            finally:
                os.close(root)
        return {}

    def _do_save(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        with AsUser():
            try:
                packer = Packer(self._emit, self._base, request["max_files"], request["max_bytes"])
                for path in ROOTS:
                    packer.base = self._base if path == "/workspace" else None
                    root = _open_root(path)
                    try:
                        packer.tree(root)
                    finally:
                        os.close(root)
            finally:
                self._flush()
        return {}

    def _do_restore(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        data, place = _mapped(blob), 0
        with AsUser():
            self._wipe()
            for path in ROOTS:
                root = _open_root(path)
                try:
                    unpack(data, place, root, self._base)
                finally:
                    os.close(root)
                place = end_of(data, place)
        return {}

    def _do_changes(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        with AsUser():
            root = _open_root("/workspace")
            try:
                Comparison(self, self._base, request).tree(root)
            finally:
                os.close(root)
                self._flush()
        return {}

    def _wipe(self) -> None:
        for path, mode in ROOTS.items():
            root = _open_root(path)
            try:
                wipe(root)
                os.fchmod(root, mode)
            finally:
                os.close(root)

    def _do_exec(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        started, oom, cpu = time.monotonic(), _oom_kills(), self._cpu_seconds()
        run = Run(request)
        pid = os.fork()
        if pid == 0:
            become_command(request, blob, run, self._filter)
        run.close_writers()
        limits = CpuLimits(request["cpu_s"], request["idle_s"], self._cores, lambda: self._cpu_seconds() - cpu, started)
        code, timed_out = self._follow(run, pid, started + request["timeout_s"], limits)
        exited = _sweep(pid)
        for fd in (run.output, run.channel):
            while self._pump(run, fd):
                pass
        _forget_ipc()
        told = _read_some(run.status)
        run.close()
        if code is None and exited is not None and not timed_out and not self._kill:
            code = exited
        tail = run.tail.result()
        self._send(b"O", tail)
        reply = {"timed_out": timed_out, "oom": _oom_kills() > oom, "seconds": time.monotonic() - started}
        reply["cpu_seconds"] = self._cpu_seconds() - cpu
        reply["dropped"] = run.tail.total - len(tail)
        if told:
            reply.update(json.loads(told.decode("latin-1")))
        elif code is not None:
            reply["exit-code"] = code
        return reply

    def _cpu_seconds(self) -> float:
        """Return the CPU seconds of all commands so far: the control group's without the worker's, or /proc's."""
        for path, start, unit in _CPU_COUNTERS if self._counts_cpu else ():
            try:
                lines = Path(path).read_text("ascii").splitlines()
            except OSError:
                continue
            used = next(int(line[len(start) :]) for line in lines if line.startswith(start))
            return used * unit - time.process_time()
        return linux.cpu_seconds_below(os.getpid())

    def _follow(self, run: Run, pid: int, deadline: float, limits: CpuLimits) -> tuple[int | None, bool]:
        """Pass on what the command writes until it ends, is to be killed, or is out of time."""
        watched = {run.output, run.channel}
        for fd in watched:
            self._poll.register(fd, select.POLLIN)
        try:
            while True:
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    return _exit_code(status), False
                now = time.monotonic()
                timed_out = now >= deadline or (now >= limits.next_check and limits.exceeded(now))
                if self._kill or timed_out:
                    return None, timed_out
                for fd in self._wait(min(deadline - now, limits.next_check - now, _DEAD_MAN_S)):
                    if not self._pump(run, fd):
                        # Nobody holds its other end any more.
                        watched.discard(fd)
                        self._poll.unregister(fd)
        finally:
            for fd in watched:
                self._poll.unregister(fd)

    def _pump(self, run: Run, fd: int) -> bool:
        """Read one piece; False when there is nothing (more) to read."""
        data = _read_some(fd)
        if not data:
            return False
        if fd == run.channel:
            passed = data[: run.channel_room]
            run.channel_room -= len(passed)
            if passed:
                self._send(b"C", passed)
            return True
        head = data[: run.head_room]
        run.head_room -= len(head)
        if head:
            self._send(b"O", head)
        run.tail.feed(data[len(head) :])
        return True


class Comparison:
    """What differs from the base, told as one blob; see CHANGE."""

    def __init__(self, worker: Worker, base: Base | None, request: dict[str, Any]) -> None:
        self._emit = worker._emit
        self._base = base or Base(b"")
        self._most, self._largest, self._budget = request["max_files"], request["max_bytes"], request["max_total"]
        self._count = 0

    def tree(self, root: int) -> None:
        for kind, path, info, folder, name, names in walk(root, _DEEPEST_CHANGE):
            before = self._base.entries.get(path)
            if kind == b"d":
                if before and before[0] != b"d":
                    self._tell(b"D", path)
                here = {os.fsencode(one) for one in names}
                for gone in self._base.names.get(path, ()) if before and before[0] == b"d" else ():
                    if gone not in here:
                        self._tell(b"D", path + b"/" + gone if path else gone)
            elif kind == b"f":
                self._file(path, info, folder, name, before)
            elif kind == b"l":
                target = os.fsencode(os.readlink(name, dir_fd=folder))
                was = before and before[0] == b"l" and self._base.data[before[3] : before[3] + before[4]]
                if was != target:
                    self._tell(b"l", path, len(target), False, target)
            elif kind != b"u":
                self._tell(b"s", path)

    def _file(self, path: bytes, info: os.stat_result, folder: int, name: str, before: Any) -> None:
        fd = open_file(folder, name, info)
        try:
            executable = bool(info.st_mode & 0o100)
            same_mode = before and bool(before[1] & 0o100) == executable
            if same_mode and self._base.same_content(before, fd, info.st_size):
                return
            content = None
            if info.st_size <= min(self._largest, self._budget):
                content = b"".join(iter(lambda: os.read(fd, 1 << 20), b""))
                self._budget -= len(content)
            self._tell(b"f", path, info.st_size, executable, content)
        finally:
            os.close(fd)

    def _tell(
        self, kind: bytes, path: bytes, size: int = 0, executable: bool = False, content: bytes | None = None
    ) -> None:
        self._count += 1
        if self._count > self._most:
            raise LimitExceeded(f"more than {self._most} paths changed")
        self._emit(CHANGE.pack(kind, len(path), executable, content is not None, size) + path)
        if content is not None:
            self._emit(struct.pack("<Q", len(content)) + content)


class AsUser:
    """File work is done with the sandbox user's rights."""

    def __enter__(self) -> None:
        os.setegid(UID)
        os.seteuid(UID)

    def __exit__(self, *_: object) -> None:
        os.seteuid(0)
        os.setegid(0)


def become_command(request: dict[str, Any], stdin: int | None, run: Run, program: bytes) -> None:
    """In the command's process: everything between fork and exec. Does not return."""
    told, code, name = "failed", 126, "start"
    try:
        words = [word.encode("latin-1") for word in request["argv"]]
        environment = {key.encode(): value.encode("latin-1") for key, value in request["env"].items()}
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
        source = os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin
        wanted = [source, run.output_writer, run.output_writer]
        wanted += [run.channel_writer] if request["channel_limit"] is not None else []
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for fd in wanted]
        status = fcntl.fcntl(run.status_writer, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
        for number, fd in enumerate(high):
            os.dup2(fd, number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP) and signal.getsignal(number) is not None:
                signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        os.setsid()
        os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
        told, name = "refused", request["cwd"]
        os.chdir(request["cwd"].encode("latin-1"))
        linux.no_new_privileges()
        linux.load_seccomp(program)
        name, code = request["argv"][0], 127
        os.execvpe(words[0], words, environment)
    except OSError as error:
        code = code if isinstance(error, FileNotFoundError) else 126
        answer = {told: f"{name}: {error.strerror}", "code": code}
        os.write(status, json.dumps(answer).encode())
    finally:
        os._exit(125)


def _sweep(command: int) -> int | None:
    """Kill every other process until none is left; the command's exit code, if it was not known yet."""
    code = None
    give_up = time.monotonic() + _SWEEP_S
    while True:
        try:
            # From the first process of a namespace: all others in it, at once, whatever they call themselves.
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


def _forget_ipc() -> None:
    """Remove what outlives processes in the namespace: System V objects and message queues."""
    for kind, remove in (("shm", _libc.shmctl), ("sem", _libc.semctl), ("msg", _libc.msgctl)):
        lines = Path("/proc/sysvipc", kind).read_text("ascii").splitlines()[1:]
        found = [int(line.split()[1]) for line in lines]
        for number in found:
            with AsUser():
                remove(number, *((0, 0) if kind == "sem" else (0, None)))
    if os.path.isdir("/dev/mqueue") and os.listdir("/dev/mqueue"):
        with AsUser():
            for name in os.listdir("/dev/mqueue"):
                os.unlink("/dev/mqueue/" + name)


def _oom_kills() -> int:
    """How often the kernel has killed in this container for want of memory."""
    for path in _OOM_COUNTERS:
        try:
            lines = Path(path).read_text("ascii").splitlines()
            return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
        except OSError:
            continue
    return 0


def _open_root(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _mapped(blob: int | None) -> Any:
    if blob is None:
        raise ValueError("this request needs a blob")
    return mmap.mmap(blob, 0, prot=mmap.PROT_READ)


def _read_some(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return b""


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def main() -> None:
    linux.set_dumpable(False)
    os.umask(0o022)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    Worker().serve()
