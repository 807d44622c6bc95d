"""The socket that is served on."""

from __future__ import annotations

import errno
import socket


def listen(host: str, port: int) -> socket.socket:
    """A listening socket whose connections notice a vanished peer in about two minutes. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, option):
                listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        listening.bind((host, port))
        listening.listen(2048)
    except BaseException:
        listening.close()
        raise
    return listening


def why_not(error: OSError, host: str, port: int) -> str:
    """One line for a person, with the remedy."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use: stop what listens there, or choose another with --port (0: any free)"
    return f"cannot listen on {host} port {port}: {error.strerror or error}"
