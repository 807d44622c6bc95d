"""Targets of the attempts on this machine: listeners, a process, files and locks that belong to the test alone."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...protocol import SANDBOX_UID
from .inside.calls import call

# A process that waits, with the secret in its memory, an open file and an open folder; it says where.
_DECOY = """
import ctypes, os, sys
secret = ctypes.create_string_buffer(os.environ["ETUDE_DECOY"].encode() + b"\\0")
file, folder = os.open("secret", os.O_RDONLY), os.open(".", os.O_RDONLY)
print(ctypes.addressof(secret), file, flush=True)
sys.stdin.read()
"""
_AT_FDCWD = -100


@dataclass
class Host:
    """The targets of the attempts. ``target`` is what an attempt may know, ``proofs`` are what it must not read."""

    target: dict[str, Any]
    proofs: list[bytes]
    mark: Path
    """A file that no attempt may write."""
    inherited: tuple[int, int]
    """Descriptors of the secret and of its folder, which children inherit unless they are closed."""
    reached: list[str] = field(default_factory=list)
    """The listeners that something connected to."""

    def disturbance(self) -> str:
        """Return what an attempt did to the host since the last call, "" for nothing."""
        deeds, self.reached[:] = list(self.reached), []
        if self.mark.exists():
            self.mark.unlink()
            deeds.append("wrote a file of the host")
        return ", ".join(deeds)


@contextlib.contextmanager
def prepared_host(folder: Path) -> Iterator[Host]:
    """Prepare the aims below ``folder``, which every user may enter; all is gone at the end."""
    canary = f"etude-secret-{secrets.token_hex(8)}"
    aims, writable = folder / "aims", folder / "writable"
    for path, mode in ((aims, 0o755), (writable, 0o777)):
        path.mkdir()
        path.chmod(mode)
    folder.chmod(0o755)
    secret, mark = aims / "secret", writable / "mark"
    secret.write_text(canary)
    with contextlib.ExitStack() as stack:
        inherited = os.open(secret, os.O_RDONLY), os.open(aims, os.O_RDONLY)
        for descriptor in inherited:
            stack.callback(os.close, descriptor)
            os.set_inheritable(descriptor, True)
        lock = stack.enter_context(secret.open(encoding="ascii"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        host = Host({}, [canary.encode()], mark, inherited)
        for name in ("ETUDE_SECRET", "ETUDE_TEST_CANARY"):
            os.environ[name] = canary
            stack.callback(os.environ.pop, name, None)
        boot = Path("/proc/sys/kernel/random/boot_id")
        host.proofs += [boot.read_bytes().strip()] if boot.exists() else []
        interfaces = {name: _address_of(name) for _, name in socket.if_nameindex() if name != "lo"}
        host.target.update(
            secret=str(secret),
            mark=str(mark),
            locked=secret.stat().st_ino,
            disk=secret.stat().st_dev,
            handle=_handle_of(secret),
            hostname=os.uname().nodename,
            interfaces=interfaces,
        )
        host.target.update(_listeners(stack, host, writable, canary.encode()))
        host.target.update(_decoy(stack, aims, canary))
        yield host


def _address_of(interface: str) -> str:
    path = Path("/sys/class/net", interface, "address")
    return path.read_text("ascii").strip() if path.exists() else ""


def _decoy(stack: contextlib.ExitStack, folder: Path, canary: str) -> dict[str, Any]:
    """Start the process that waits, as the sandboxes' own user where that is possible."""
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"user": SANDBOX_UID, "group": SANDBOX_UID, "extra_groups": []}
    decoy = subprocess.Popen(
        [python, "-I", "-S", "-c", _DECOY, canary],
        env={"ETUDE_DECOY": canary},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **user,
    )
    stack.callback(decoy.wait)
    stack.callback(decoy.kill)
    assert decoy.stdout is not None and decoy.stdin is not None
    stack.callback(decoy.stdout.close)
    stack.callback(decoy.stdin.close)
    address, descriptor = map(int, decoy.stdout.readline().split())
    return {"pid": decoy.pid, "address": address, "descriptor": descriptor}


def _listeners(stack: contextlib.ExitStack, host: Host, folder: Path, canary: bytes) -> dict[str, Any]:
    """Listen on the loopback interface and on sockets with names; each answers with the secret."""
    abstract, path = f"etude-{secrets.token_hex(8)}", str(folder / "socket")
    addresses: list[tuple[str, int, Any]] = [
        ("port", socket.AF_INET, ("127.0.0.1", 0)),
        ("port6", socket.AF_INET6, ("::1", 0)),
        ("abstract", socket.AF_UNIX, "\0" + abstract),
        ("socket", socket.AF_UNIX, path),
    ]
    places: dict[str, Any] = {"abstract": abstract, "socket": path, "port6": 0}
    for name, family, address in addresses:
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.bind(address)
        except OSError:
            continue  # a machine without IPv6
        listener.listen()
        if name in ("port", "port6"):
            places[name] = listener.getsockname()[1]
        _serve(stack, listener, lambda server, name=name: _answer(host, server, name, canary))
    os.chmod(path, 0o777)
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    places["datagram_port"] = datagrams.getsockname()[1]
    _serve(stack, datagrams, lambda server: _answer_datagram(host, server, canary))
    return places


def _serve(stack: contextlib.ExitStack, server: socket.socket, answer: Any) -> None:
    def loop() -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                answer(server)

    server.settimeout(None)
    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    stack.callback(thread.join, 5)
    stack.callback(server.close)
    stack.callback(_wake, server)


def _wake(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)


def _answer(host: Host, server: socket.socket, name: str, canary: bytes) -> None:
    client, _ = server.accept()
    with client:
        host.reached.append(f"reached the listener {name!r}")
        client.sendall(canary)


def _answer_datagram(host: Host, server: socket.socket, canary: bytes) -> None:
    data, sender = server.recvfrom(100)
    if not data:
        raise OSError("shut down")
    host.reached.append("reached the datagram port")
    server.sendto(canary, sender)


def _handle_of(path: Path) -> str:
    """Return the kernel's handle of a file as hexadecimal digits, "" where there is none."""
    buffer = ctypes.create_string_buffer((128).to_bytes(4, sys.byteorder) + bytes(132), 136)
    mount = ctypes.c_int()
    try:
        call("name_to_handle_at", _AT_FDCWD, os.fsencode(path), buffer, ctypes.byref(mount), 0)
    except OSError:
        return ""
    size = int.from_bytes(buffer.raw[:4], sys.byteorder)
    return buffer.raw[: 8 + size].hex()
