"""The worker: the only long-lived process of a container. Stdlib only, Python 3.8; its text is an argument of python3.

It runs as root without the rights of root (it may become the sandbox user, and kill), and not dumpable. Frames come on
standard input and go to standard output, which no command ever holds: a kind (one byte), a length, the content.
In: ``B`` part of a blob, ``Q`` a request that may use it, ``K`` kill what runs, ``H`` the server lives.
Out: ``O`` output, ``C`` private channel, ``B`` part of a blob, ``R`` the reply.
When input ends, or nothing comes for a minute, the worker exits, and with the container's first process all others.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import select
import signal
import struct
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...kernel import linux
from ...layers.changes import ChangeLimits, find_changes
from ...layers.lower import RecordedFolder
from ...layers.records import Folder, Sender, Sent, described, tree_in
from ...layers.reset_tree import reset_tree
from ...layers.restore_layer import restore_layer
from ...layers.save_layer import LayerFolder, save_layer
from ...layers.touched import TreeWatch
from ...layers.tree_access import LimitExceeded, opened_folders, wipe
from .command import Command, Container, as_user
from .interfaces import cut_network

FRAME = struct.Struct("<cI")
WORKSPACE = "workspace"
# Every folder that a command may write, below the root.
_MODES = {WORKSPACE: 0o755, "tmp": 0o1777, "dev/shm": 0o1777}
_DEAD_MAN_S = 60.0
_CHUNK = 1 << 16


class Worker:
    """Requests from the server, one at a time, and their replies."""

    def __init__(self) -> None:
        self._input = bytearray()
        self._requests: deque[tuple[dict[str, Any], int | None]] = deque()
        self._blob: int | None = None
        self._kill = False
        self._lower: RecordedFolder
        self._container: Container
        self._watch = TreeWatch()
        self._last_input = time.monotonic()
        self._outgoing = bytearray()
        self._root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._wake, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        os.set_blocking(0, False)
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)

    def serve(self) -> None:
        """Answer requests until input ends."""
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
            self._flush()
            self._send(b"R", json.dumps(reply).encode())

    # Frames

    def _wait(self, timeout_s: float) -> list[int]:
        """Wait for input, a child's end or a pipe; take input in and return the pipes that have something."""
        ready = [fd for fd, _ in self._poll.poll(max(0.0, timeout_s) * 1000)]
        if self._wake in ready:
            os.read(self._wake, 4096)
        if 0 in ready:
            self._take_input()
        elif time.monotonic() - self._last_input > _DEAD_MAN_S:
            os._exit(3)
        return [fd for fd in ready if fd not in (0, self._wake)]

    def _take_input(self) -> None:
        data = os.read(0, 1 << 18)
        if not data:
            os._exit(0)
        self._last_input = time.monotonic()
        self._input += data
        for kind, content in frames_in(self._input):
            if kind == b"B":
                if self._blob is None:
                    self._blob = os.memfd_create("etude", os.MFD_CLOEXEC)
                _write_all(self._blob, content)
            elif kind == b"Q":
                self._requests.append((json.loads(content.decode()), self._blob))
                if self._blob is not None:
                    os.lseek(self._blob, 0, os.SEEK_SET)
                self._blob = None
            elif kind == b"K":
                self._kill = True

    def _send(self, kind: bytes, content: bytes) -> None:
        if content:
            _write_all(1, FRAME.pack(kind, len(content)) + content)

    def _emit(self, content: bytes) -> None:
        """Collect a blob's parts, and send them when they are worth a frame."""
        self._outgoing += content
        if len(self._outgoing) >= _CHUNK:
            self._flush()

    def _flush(self) -> None:
        self._send(b"B", bytes(self._outgoing))
        self._outgoing.clear()

    # Requests

    def _do_open(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        if request["cut"]:
            try:
                cut_network()
            except OSError as error:
                return {"uncut": str(error)}
        self._container = Container(request)
        self._watch = TreeWatch(enabled=request["watch"])
        for name in _MODES:
            # Not every engine gives a folder in memory to a user.
            if os.stat("/" + name).st_uid != self._container.uid:
                os.chown("/" + name, self._container.uid, self._container.uid)
        tree = tree_in(_mapped(blob)).children[WORKSPACE]
        assert isinstance(tree, Folder)
        self._lower = RecordedFolder(tree)
        self._do_reset(request, None)
        return {"killed_together": self._container.killed_together}

    @contextmanager
    def _folders(self) -> Iterator[dict[str, int]]:
        """Open what a command may write, with its rights."""
        with as_user(self._container.uid), opened_folders(self._root, _MODES) as folders:
            yield folders

    def _do_reset(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        with as_user(self._container.uid):
            for name in _MODES:
                os.chmod("/" + name, 0o700)
        with self._folders() as folders:
            for name in ("tmp", "dev/shm"):
                wipe(folders[name])
                os.fchmod(folders[name], _MODES[name])
            reset_tree(folders[WORKSPACE], self._lower, self._watch, None)
        return {}

    def _do_save(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        sender = Sender(self._emit)
        with self._folders() as folders:
            trees = {name: LayerFolder(folder) for name, folder in folders.items()}
            trees[WORKSPACE] = LayerFolder(folders[WORKSPACE], self._lower, self._watch.collect())
            bounds = {"max_files": request["max_files"], "max_bytes": request["max_bytes"]}
            saved = save_layer(trees, keep=sender.keep, **bounds)
        sender.finish(described(saved.tree, set()))
        return {}

    def _do_restore(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        tree = tree_in(_mapped(blob))
        self._do_reset(request, None)
        with self._folders() as folders:
            restore_layer(folders, tree, None)
        return {}

    def _do_changes(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        sender = Sender(self._emit)
        limits = ChangeLimits(request["max_files"], request["max_bytes"], request["max_total"])
        with self._folders() as folders:
            watched = self._watch.collect()
            changes = find_changes(folders[WORKSPACE], self._lower, limits, watched=watched, keep=sender.keep)
        fields = []
        for change in changes:
            content: Any = change.content
            place = [content.place, content.length] if isinstance(content, Sent) else None
            target = None if change.kind != "symlink" else content.decode("latin-1")
            fields.append([change.path, change.kind, change.size, change.executable, place, target])
        sender.finish(fields)
        return {}

    def _do_exec(self, request: dict[str, Any], blob: int | None) -> dict[str, Any]:
        command = Command(self._container, request, blob, self._send)
        code, timed_out = self._follow(command)
        reply = command.finish(code, stopped=timed_out or self._kill, timed_out=timed_out)
        self._watch.collect()
        return reply

    def _follow(self, command: Command) -> tuple[int | None, bool]:
        """Pass on what the command writes until it ends, is to be killed, or is over its limits."""
        pipes = set(command.pipes)
        for pipe in pipes:
            self._poll.register(pipe, select.POLLIN)
        try:
            while True:
                code = command.exit_code()
                if code is not None:
                    return code, False
                now = time.monotonic()
                timed_out = command.is_over_limits(now)
                if self._kill or timed_out:
                    return None, timed_out
                for pipe in self._wait(min(command.next_check() - now, _DEAD_MAN_S)):
                    if not command.read(pipe):
                        # No process holds its other end any more.
                        pipes.discard(pipe)
                        self._poll.unregister(pipe)
        finally:
            for pipe in pipes:
                self._poll.unregister(pipe)


def frames_in(buffer: bytearray, header: struct.Struct = FRAME) -> Iterator[tuple[Any, bytes]]:
    """Take every complete frame out of ``buffer``; ``header`` holds the kind and the length of a content."""
    while len(buffer) >= header.size:
        kind, length = header.unpack_from(buffer)
        if len(buffer) < header.size + length:
            return
        content = bytes(buffer[header.size : header.size + length])
        del buffer[: header.size + length]
        yield kind, content


def _mapped(blob: int | None) -> Any:
    if blob is None:
        raise ValueError("this request needs a blob")
    return mmap.mmap(blob, 0, prot=mmap.PROT_READ)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def main() -> None:
    """Serve as the first process of a container."""
    linux.set_dumpable(False)
    os.umask(0o022)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    Worker().serve()
