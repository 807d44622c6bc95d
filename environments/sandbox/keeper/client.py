"""The server's end of the keeper: starts it, and carries requests, replies and descriptors.

One keeper per server process and kind, shared by every event loop and thread; a forked worker starts its own. Each
sandbox talks over a socket of its own, so nothing is shared that a loop could own.
"""

from __future__ import annotations

import array
import asyncio
import json
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....errors import SandboxError, SandboxUnavailable
from .sockets import hang_up, ready

_INLINE_BYTES = 64 * 1024
_REPLY_BYTES = 64 * 1024
_PACKAGE = __package__ or ""
# Loads the keeper's own modules under their true names without running the packages above them.
_BOOT = """
import sys, types
root, package, kind = sys.argv[1:]
names = package.split(".")
for depth in range(len(names)):
    module = types.ModuleType(".".join(names[: depth + 1]))
    module.__path__ = ["/".join([root, *names[1 : depth + 1]])]
    sys.modules[module.__name__] = module
__import__(package + ".keeper")
sys.modules[package + ".keeper"].main(kind)
"""


class Link:
    """A running keeper. ``connect`` gives the server's end of a new sandbox socket."""

    def __init__(self, kind: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = Path(__file__).parents[len(_PACKAGE.split(".")) - 1]
        argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(root), _PACKAGE, kind]
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((null, null, null))]
            actions.append((os.POSIX_SPAWN_DUP2, theirs.fileno(), 3))
            self.pid = os.posix_spawn(sys.executable, argv, {"LC_ALL": "C.UTF-8"}, file_actions=actions, setsid=True)
        except OSError as error:
            raise SandboxError(f"cannot start the sandbox keeper with {sys.executable}: {error.strerror}") from error
        finally:
            theirs.close()
            os.close(null)
        self._control = ours
        self.owner = os.getpid()

    def connect(self) -> socket.socket:
        """A new sandbox's socket. Raises OSError when the keeper is gone."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._control, [b"s"], [theirs.fileno()])
        ours.setblocking(False)
        return ours

    def close(self) -> None:
        """Let go; the keeper ends by itself. Reaps it when it is already dead."""
        self._control.close()
        if self.owner == os.getpid():
            try:
                os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                return


_links: dict[str, Link] = {}
_lock = threading.Lock()


def connect(kind: str) -> socket.socket:
    """A socket for a new sandbox of this kind, from this process's keeper; a dead keeper is replaced."""
    with _lock:
        link = _links.get(kind)
        if link is not None and link.owner == os.getpid():
            try:
                return link.connect()
            except OSError:
                link.close()
        _links[kind] = Link(kind)
        try:
            return _links[kind].connect()
        except OSError as error:
            raise SandboxError(f"the sandbox keeper died at once: {error.strerror}") from error


def keeper_pid(kind: str) -> int | None:
    """The pid of this process's keeper, if it has one."""
    link = _links.get(kind)
    return link.pid if link is not None and link.owner == os.getpid() else None


def _after_fork() -> None:
    """A forked child must not keep the parent's keeper alive, nor find its lock held."""
    global _lock
    _lock = threading.Lock()
    for link in _links.values():
        link.close()
    _links.clear()


os.register_at_fork(after_in_child=_after_fork)


class Line:
    """One sandbox's conversation with the keeper: a request, its reply, and so on."""

    def __init__(self, kind: str) -> None:
        self._socket = connect(kind)
        self._owner = os.getpid()
        self._waiting = False
        self.closed = False

    def check_open(self) -> None:
        """Raises SandboxError after close, and in a forked child."""
        if self._owner != os.getpid():
            raise SandboxError("this sandbox belongs to the parent process; open one in each process")
        if self.closed:
            raise SandboxError("the sandbox is closed")

    def send(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Send a request. Raises SandboxError when the keeper is gone or the sandbox belongs to another process."""
        self.check_open()
        data = json.dumps(request).encode()
        extra = []
        if len(data) > _INLINE_BYTES:
            extra.append(as_file(data))
            data = b'{"in_file": true}'
        try:
            socket.send_fds(self._socket, [data], [*extra, *fds])
        except OSError as error:
            raise self._gone() from error
        finally:
            for fd in extra:
                os.close(fd)

    async def receive(self) -> tuple[dict[str, Any], list[int]]:
        """The reply and its descriptors. Raises SandboxError when the keeper is gone or refuses."""
        while True:
            try:
                return self._read()
            except BlockingIOError:
                self._waiting = True
                try:
                    await ready(self._socket)
                finally:
                    self._waiting = False

    async def ask(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> tuple[dict[str, Any], list[int]]:
        """``send``, then ``receive``; a cancelled caller takes its answer along, which would be the next caller's."""
        self.send(request, fds)
        receiving = asyncio.ensure_future(self.receive())
        try:
            return await asyncio.shield(receiving)
        except asyncio.CancelledError:
            await asyncio.wait({receiving})
            if receiving.exception() is None:
                for fd in receiving.result()[1]:
                    os.close(fd)
            raise

    def ask_blocking(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """``ask`` for callers without an event loop."""
        self.send(request)
        self._socket.settimeout(timeout_s)
        try:
            return self._read()[0]
        except TimeoutError as error:
            raise SandboxError(f"the sandbox keeper did not answer within {timeout_s:g} s") from error
        finally:
            self._socket.settimeout(0)

    def _read(self) -> tuple[dict[str, Any], list[int]]:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(_REPLY_BYTES, socket.CMSG_LEN(4 * 4), socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, TimeoutError):
            raise
        except OSError as error:
            raise self._gone() from error
        if not data:
            raise self._gone()
        fds = array.array("i")
        for _, _, content in ancillary:
            fds.frombytes(content)
        answer = json.loads(data)
        if "unavailable" in answer:
            raise SandboxUnavailable(answer["unavailable"])
        if "error" in answer:
            raise SandboxError(answer["error"])
        return answer, list(fds)

    def _gone(self) -> SandboxError:
        self.close()
        return SandboxError("the sandbox keeper is gone; open a new sandbox")

    def close(self) -> None:
        """Hang up: the keeper kills and drops the sandbox. A reader that waits wakes with an error."""
        self.closed = True
        hang_up(self._socket, ours=self._owner == os.getpid(), waiting=self._waiting)


def as_file(data: bytes) -> int:
    """An anonymous file that holds ``data``, to be read from its start."""
    fd = os.memfd_create("etude", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
