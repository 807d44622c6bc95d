"""Network interfaces of the container: the worker takes all but the loopback down. Stdlib only, Python 3.8."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_UP, _LOOPBACK = 0x1, 0x8
_REQUEST = struct.Struct("16sH22x")
_CAPABILITY_VERSION = 0x20080522
_NET_ADMIN = 12

_libc = ctypes.CDLL(None, use_errno=True)


def cut_network() -> None:
    """Take every interface but the loopback down, check that they are, and give up the right to take them up again.

    Raises OSError where this process may not.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name in _names():
            flags = _flags(control, name)
            required = flags | _UP if flags & _LOOPBACK else flags & ~_UP
            if required != flags:
                fcntl.ioctl(control, _SET_FLAGS, _REQUEST.pack(name, required))
        for name in _names():
            flags = _flags(control, name)
            if flags & _UP and not flags & _LOOPBACK:
                raise OSError(f"the interface {name.decode('ascii', 'replace')} stays up")
    _give_up(_NET_ADMIN)


def _names() -> list[bytes]:
    return [name.encode() for _, name in socket.if_nameindex()]


def _flags(control: socket.socket, name: bytes) -> int:
    flags: int = _REQUEST.unpack(fcntl.ioctl(control, _GET_FLAGS, _REQUEST.pack(name, 0)))[1]
    return flags


def _give_up(capability: int) -> None:
    """Remove a capability from this process's sets, for good."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    sets = ctypes.create_string_buffer(24)
    if _libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    # Effective, permitted, inheritable of the first 32 capabilities, then of the others.
    words = [word & ~(1 << capability) if index < 3 else word for index, word in enumerate(struct.unpack("=6I", sets))]
    if _libc.capset(header, struct.pack("=6I", *words)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
