"""Access to trees that an adversary wrote, while nothing runs in them. Stdlib only, Python 3.8.

Every step is relative to an open folder, follows no link and never blocks. Whatever is neither a regular file, a
folder nor a symbolic link is reported and left alone.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

MAX_DEPTH = 128
"""Honest trees are not deeper. Deeper folders are reported as special, and are not saved."""
NO_FOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | NO_FOLLOW
READ_FOLDER = READ | os.O_DIRECTORY
_PIECE = 1 << 20


class LimitExceeded(ValueError):
    """Raised when a tree holds more than was asked for."""


@contextmanager
def opened(folder: int, name: str, flags: int = READ) -> Iterator[int]:
    """Open ``name`` for reading; where its owner may not read it, the permission is granted for that time."""
    try:
        file = os.open(name, flags, dir_fd=folder)
    except PermissionError:
        with _unlocked(folder, name, flags) as file:
            yield file
        return
    try:
        yield file
    finally:
        os.close(file)


@contextmanager
def _unlocked(folder: int, name: str, flags: int) -> Iterator[int]:
    handle = os.open(name, os.O_PATH | NO_FOLLOW, dir_fd=folder)
    path = f"/proc/self/fd/{handle}"
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    try:
        os.chmod(path, mode | 0o500)
        file = os.open(path, flags & ~os.O_NOFOLLOW)
        try:
            yield file
        finally:
            os.close(file)
    finally:
        os.chmod(path, mode)
        os.close(handle)


@contextmanager
def opened_folders(parent: int, names: Iterable[str]) -> Iterator[dict[str, int]]:
    """Open several folders of one folder."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(opened(parent, name, READ_FOLDER)) for name in names}


def lstat(folder: int, name: str) -> os.stat_result | None:
    """Return the status of ``name`` in an open folder, or None when it does not exist."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def read_link(folder: int, name: str) -> bytes:
    """Return a symbolic link's target."""
    return os.fsencode(os.readlink(name, dir_fd=folder))


def read_range(file: int, offset: int, size: int) -> bytes:
    """Return up to ``size`` bytes from ``offset``."""
    parts = []
    end = offset + size
    while offset < end:
        part = os.pread(file, min(_PIECE, end - offset), offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def write_range(file: int, offset: int, data: bytes | memoryview) -> None:
    """Write all of ``data`` at ``offset``."""
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view[:_PIECE], offset)
        offset, view = offset + written, view[written:]


def data_ranges(file: int, info: os.stat_result) -> Iterator[tuple[int, int]]:
    """Yield offset and length of the pieces (1 MiB at most) that are not holes."""
    size, offset = info.st_size, 0
    is_full = info.st_blocks * 512 >= size
    while offset < size:
        try:
            start = offset if is_full else os.lseek(file, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # the rest is a hole
                raise
            return
        end = size if is_full else os.lseek(file, start, os.SEEK_HOLE)
        offset = min(end, start + _PIECE)
        yield start, offset - start


def user_attributes(file: int) -> dict[str, bytes]:
    """Return the extended attributes that a command may set, without those that overlays use."""
    try:
        names = os.listxattr(file)
    except OSError:  # this file system has none
        return {}
    settable = [name for name in names if name.startswith("user.") and not name.startswith("user.overlay.")]
    return {name: os.getxattr(file, name) for name in settable}


def is_opaque(folder: int) -> bool:
    """Return whether an overlay's upper folder replaces its lower one instead of being merged with it."""
    try:
        return os.getxattr(folder, opaque_mark()) in (b"y", b"x")
    except OSError:
        return False


@functools.lru_cache(maxsize=1)
def opaque_mark() -> str:
    """Return the attribute with which this user's overlays mark opaque folders.

    The attribute that other users' overlays use may be set by a file's owner, and means nothing here.
    """
    is_root = os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
    return f"{'trusted' if is_root else 'user'}.overlay.opaque"


def remove_attributes(folder: int) -> None:
    """Remove the extended attributes and access lists that a command may have given an open folder."""
    try:
        names = os.listxattr(folder)
    except OSError:  # this file system has none
        return
    for name in names:
        if name.startswith(("user.", "system.posix_acl_")):
            os.removexattr(folder, name)


@contextmanager
def created(folder: int, name: str, mode: int, mtime: int, owner: int | None) -> Iterator[int]:
    """Open a new file for writing; at the end ``owner`` (None: this user) gets it, with this mode and time."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o600, dir_fd=folder)
    try:
        yield file
        if owner is not None:
            os.fchown(file, owner, owner)
        os.fchmod(file, stat.S_IMODE(mode))
        os.utime(file, ns=(mtime, mtime))
    finally:
        os.close(file)


def make_folder(folder: int, name: str, owner: int | None) -> None:
    """Make an empty folder that only ``owner`` (None: this user) may enter."""
    os.mkdir(name, 0o700, dir_fd=folder)
    if owner is not None:
        os.chown(name, owner, owner, dir_fd=folder)


def make_special(folder: int, name: str, mode: int, mtime: int, target: bytes | None, owner: int | None) -> None:
    """Make a symbolic link (with a ``target``), a FIFO, a socket or an overlay's mark of a deleted name."""
    if target is not None:
        os.symlink(target, os.fsencode(name), dir_fd=folder)
    else:
        os.mknod(name, mode, dir_fd=folder)
        if not stat.S_ISCHR(mode):  # an overlay's mark may not be changed
            os.chmod(name, stat.S_IMODE(mode), dir_fd=folder)
    if owner is not None:
        os.chown(name, owner, owner, dir_fd=folder, follow_symlinks=False)
    os.utime(name, ns=(mtime, mtime), dir_fd=folder, follow_symlinks=False)


def remove(folder: int, name: str) -> None:
    """Remove a file, or a folder with everything below it, however deep it is."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
        return
    os.chmod(name, 0o700, dir_fd=folder)
    with opened(folder, name, READ_FOLDER) as inner:
        wipe(inner)
    os.rmdir(name, dir_fd=folder)


def wipe(folder: int) -> None:
    """Empty an open folder. Folders within folders are moved up first, so that no path becomes too long."""
    os.fchmod(folder, 0o700)
    remove_attributes(folder)
    mark = ".wiped-" + os.urandom(8).hex()
    moved = 0
    while True:
        names = os.listdir(folder)
        if not names:
            return
        for name in names:
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
                continue
            os.chmod(name, 0o700, dir_fd=folder)
            with opened(folder, name, READ_FOLDER) as inner:
                for child in os.listdir(inner):
                    try:
                        os.unlink(child, dir_fd=inner)
                    except IsADirectoryError:
                        moved += 1
                        os.chmod(child, 0o700, dir_fd=inner)
                        os.rename(child, mark + str(moved), src_dir_fd=inner, dst_dir_fd=folder)
            os.rmdir(name, dir_fd=folder)
