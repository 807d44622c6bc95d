"""Messages with descriptors over a SOCK_SEQPACKET socket, and a helper process that closes descriptors. Stdlib only."""

from __future__ import annotations

import array
import os
import resource
import signal
import socket

from ..kernel import linux

MESSAGE_BYTES = 256 * 1024
_MOST_DESCRIPTORS = 16


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Return one message and its descriptors; an empty message when the other side is gone. Raises OSError."""
    message, ancillary, _, _ = sock.recvmsg(
        MESSAGE_BYTES, socket.CMSG_LEN(_MOST_DESCRIPTORS * 4), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return message, list(descriptors)


class Closer:
    """A child process that closes descriptors: dropping a mount namespace frees its files' memory, which takes time."""

    def __init__(self) -> None:
        child_end, self._socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                linux.die_with_parent(parent, signal.SIGKILL)
                os.dup2(child_end.fileno(), 3)
                os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
                _close_all_received()
            finally:
                os._exit(0)
        child_end.close()
        self._socket.settimeout(1.0)

    def close(self, descriptors: list[int]) -> None:
        """Hand the descriptors over."""
        if descriptors:
            try:
                socket.send_fds(self._socket, [b"x"], descriptors)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)


def _close_all_received() -> None:
    with socket.socket(fileno=3) as end:
        while True:
            message, descriptors = receive(end)
            if not message:
                return
            for descriptor in descriptors:
                os.close(descriptor)
