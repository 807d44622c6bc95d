"""Landlock: a process gives up every file but an allow-list, for itself and all it starts. Stdlib only."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from . import linux

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
# Of what can be handled, a writable folder allows everything but new devices.
_MAKE_DEVICES = 1 << 6 | 1 << 11

_ALL_NETWORK = 0b11
_ALL_SCOPES = 0b11
# What the kernel's version of the interface brought: access bits known from that version on.
_KNOWN_BITS = {1: 13, 2: 14, 3: 15, 5: 16}
_NETWORK_SINCE, SCOPES_SINCE = 4, 6


class _RulesetAttribute(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathAttribute(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """Return the kernel's Landlock version; 0 without Landlock."""
    try:
        return linux.syscall(_CREATE, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


class Ruleset:
    """An allow-list being written; ``fd`` serves any number of ``restrict`` calls."""

    def __init__(self) -> None:
        abi = version()
        self._handled = (1 << max(bits for since, bits in _KNOWN_BITS.items() if since <= abi)) - 1
        network = _ALL_NETWORK if abi >= _NETWORK_SINCE else 0
        scopes = _ALL_SCOPES if abi >= SCOPES_SINCE else 0
        attribute = _RulesetAttribute(self._handled, network, scopes)
        size = 24 if scopes else 16 if network else 8
        self.fd = linux.syscall(_CREATE, ctypes.byref(attribute), size, 0)
        os.set_inheritable(self.fd, False)

    def read(self, path: str, hidden: Collection[str] = ()) -> None:
        """Allow reading and executing below ``path``, without the contents of ``hidden`` (relative to it).

        Names may still be listed there: a rule holds for everything below it, and Python lists its library.
        """
        if hidden:
            self._allow(path, _READ_DIR)
        for piece in _around(Path(path), {Path(path, name) for name in hidden}):
            self._allow(str(piece), _READ)

    def write(self, path: str) -> None:
        """Allow everything below ``path`` but to make and to control devices."""
        self._allow(path, self._handled & ~_MAKE_DEVICES & ~_IOCTL_DEV)

    def device(self, path: str) -> None:
        """Allow reading, writing and controlling a device."""
        self._allow(path, (_READ_FILE | _WRITE_FILE | _IOCTL_DEV) & self._handled)

    def _allow(self, path: str, access: int) -> None:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            allowed = access if os.path.isdir(path) else access & _ON_FILES
            if allowed:
                rule = _PathAttribute(allowed & self._handled, fd)
                linux.syscall(_ADD_RULE, self.fd, _PATH_BENEATH, ctypes.byref(rule), 0)
        finally:
            os.close(fd)


def _around(folder: Path, hidden: set[Path]) -> Iterable[Path]:
    """Yield the fewest paths that cover ``folder`` without ``hidden``; links are left out, since rules follow them."""
    if folder in hidden:
        return
    if not any(path.is_relative_to(folder) for path in hidden):
        yield folder
        return
    for entry in os.scandir(folder):
        if not entry.is_symlink():
            yield from _around(Path(entry.path), hidden)


def restrict(fd: int) -> None:
    """Confine the calling process for good; needs ``no_new_privileges`` first."""
    linux.syscall(_RESTRICT, fd, 0)
