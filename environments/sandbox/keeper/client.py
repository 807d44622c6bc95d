"""The server's end of the keeper: starts it, and carries requests, replies and descriptors.

One keeper per server process and kind serves every event loop and thread; a forked worker starts its own. Each sandbox
has its own socket, so nothing is shared that a loop could own.
"""

from __future__ import annotations

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
from .messages import receive
from .sandbox_socket import SandboxSocket

_INLINE_BYTES = 64 * 1024
_PACKAGE = __package__ or ""
# Loads the keeper's modules under their true names without running the packages above them.
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


class KeeperProcess:
    """A running keeper."""

    def __init__(self, kind: str) -> None:
        server_end, keeper_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = Path(__file__).parents[len(_PACKAGE.split(".")) - 1]
        argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(root), _PACKAGE, kind]
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((null, null, null))]
            actions.append((os.POSIX_SPAWN_DUP2, keeper_end.fileno(), 3))
            self.pid = os.posix_spawn(sys.executable, argv, {"LC_ALL": "C.UTF-8"}, file_actions=actions, setsid=True)
        except OSError as error:
            raise SandboxError(f"cannot start the sandbox keeper with {sys.executable}: {error.strerror}") from error
        finally:
            keeper_end.close()
            os.close(null)
        self._control = server_end
        self.owner = os.getpid()

    def connect(self) -> socket.socket:
        """Return the server's end of a new sandbox's socket. Raises OSError when the keeper is gone."""
        server_end, keeper_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with keeper_end:
            socket.send_fds(self._control, [b"s"], [keeper_end.fileno()])
        return server_end

    def close(self) -> None:
        """Disconnect, upon which the keeper ends; reap it when it is already dead."""
        self._control.close()
        if self.owner == os.getpid():
            try:
                os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                return


_keepers: dict[str, KeeperProcess] = {}
_lock = threading.Lock()


def connect(kind: str) -> socket.socket:
    """Return a socket for a new sandbox of this kind from this process's keeper; a dead keeper is replaced."""
    with _lock:
        keeper = _keepers.get(kind)
        if keeper is not None and keeper.owner == os.getpid():
            try:
                return keeper.connect()
            except OSError:
                keeper.close()
        _keepers[kind] = KeeperProcess(kind)
        try:
            return _keepers[kind].connect()
        except OSError as error:
            raise SandboxError(f"the sandbox keeper died at its start ({error.strerror}); try again") from error


def keeper_pid(kind: str) -> int | None:
    """Return the pid of this process's keeper, None when it has none."""
    keeper = _keepers.get(kind)
    return keeper.pid if keeper is not None and keeper.owner == os.getpid() else None


def _after_fork() -> None:
    """Forget the parent's keepers, which a child must not keep alive, and its lock, which may be held."""
    global _lock
    _lock = threading.Lock()
    for keeper in _keepers.values():
        keeper.close()
    _keepers.clear()


os.register_at_fork(after_in_child=_after_fork)


class KeeperClient(SandboxSocket):
    """One sandbox's conversation with the keeper: requests and their replies, in turn; its end is the sandbox's."""

    def __init__(self, kind: str) -> None:
        super().__init__(connect(kind))

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
            raise self._keeper_gone() from error
        finally:
            for fd in extra:
                os.close(fd)

    async def receive(self) -> tuple[dict[str, Any], list[int]]:
        """Return the reply and its descriptors. Raises SandboxError when the keeper is gone or refuses."""
        while True:
            try:
                return self._read()
            except BlockingIOError:
                await self.wait_until_ready()

    async def ask(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> tuple[dict[str, Any], list[int]]:
        """Send a request and return the reply; a cancelled caller waits for it, or the next one would get it."""
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
        """Send a request and return the reply, without an event loop."""
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
            data, descriptors = receive(self._socket)
        except (BlockingIOError, TimeoutError):
            raise
        except OSError as error:
            raise self._keeper_gone() from error
        if not data:
            raise self._keeper_gone()
        answer = json.loads(data)
        if "unavailable" in answer:
            raise SandboxUnavailable(answer["unavailable"])
        if "error" in answer:
            raise SandboxError(answer["error"])
        return answer, descriptors

    def _keeper_gone(self) -> SandboxError:
        self.close()
        return SandboxError("the sandbox keeper is gone; open a new sandbox")


def as_file(data: bytes) -> int:
    """Return an anonymous file that holds ``data``, to be read from its start."""
    fd = os.memfd_create("etude", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
