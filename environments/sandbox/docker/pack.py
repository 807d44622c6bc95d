"""Trees as streams of bytes: how a workspace gets into a container, is compared, saved and put back.

Stdlib only, Python 3.8: the worker inside the container runs this text too. A tree belongs to an adversary but nothing
runs in it meanwhile: every step is relative to a descriptor and follows no link, no path is ever joined, and one
descriptor is enough however deep the tree is. Kept: kinds, modes, seconds of change, hard links, holes. Not kept:
extended attributes, owners.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

# Kind, length of the name, mode, time of change in ns, bytes of payload; then the name and the payload.
HEAD = struct.Struct("<cHIqQ")
_FILE = struct.Struct("<QI")
_EXTENT = struct.Struct("<QQ")
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20

if TYPE_CHECKING:
    # Kind, mode, time, place and length of the payload.
    Entry = tuple[bytes, int, int, int, int]
    # Kind, path, what lstat says, the folder's descriptor, the name in it; for a folder the names in it.
    Step = tuple[bytes, bytes, os.stat_result, int, str, list[str]]


class LimitExceeded(Exception):
    """More than the caller asked for."""


class Base:
    """A packed tree to compare with: its entries by path."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.entries: dict[bytes, Entry] = {}
        self.names: dict[bytes, list[bytes]] = {}
        path: list[bytes] = []
        linked: list[Entry] = []
        for kind, name, mode, time, place, size in records(data):
            if kind == b"u":
                path.pop()
                continue
            where = b"/".join([*path[1:], name])
            if path:
                self.names.setdefault(b"/".join(path[1:]), []).append(name)
            entry = (kind, mode, time, place, size)
            if kind == b"F":
                linked.append(entry)
            self.entries[where] = linked[struct.unpack_from("<Q", data, place)[0]] if kind == b"h" else entry
            if kind == b"d":
                path.append(name)

    def same_content(self, entry: Entry, fd: int, size: int) -> bool:
        """Whether an open file holds what a packed one does."""
        if entry[0] not in (b"f", b"F"):
            return False
        length, extents = file_extents(self.data, entry[3])
        if length != size or sum(extent[1] for extent in extents) != size:
            return False
        offset = 0
        while offset < size:
            part = os.pread(fd, _CHUNK, offset)
            place = extents[0][2] + offset
            if not part or part != self.data[place : place + len(part)]:
                return False
            offset += len(part)
        return True


def records(data: Any, place: int = 0) -> Iterator[tuple[bytes, bytes, int, int, int, int]]:
    """(kind, name, mode, time, place of the payload, its length) of one packed tree."""
    depth = 0
    while True:
        kind, length, mode, time, size = HEAD.unpack_from(data, place)
        place += HEAD.size
        name = bytes(data[place : place + length])
        place += length
        yield kind, name, mode, time, place, size
        place += size
        depth += (kind == b"d") - (kind == b"u")
        if not depth:
            return


def end_of(data: Any, place: int) -> int:
    """Where a packed tree that begins at ``place`` ends."""
    for *_, payload, size in records(data, place):
        place = payload + size
    return place


def file_extents(data: Any, place: int) -> tuple[int, list[tuple[int, int, int]]]:
    """A packed file's length, and (offset, length, place in ``data``) of what is not a hole."""
    length, count = _FILE.unpack_from(data, place)
    place += _FILE.size
    content = place + count * _EXTENT.size
    extents = []
    for _ in range(count):
        offset, size = _EXTENT.unpack_from(data, place)
        extents.append((offset, size, content))
        place += _EXTENT.size
        content += size
    return length, extents


def walk(root: int, deepest: int = 1 << 30) -> Iterator[Step]:
    """Everything below an open folder, which comes first, in order: ``d`` and later ``u`` for a folder, ``f`` a file,
    ``l`` a link, ``p`` a FIFO, ``s`` anything else, ``x`` a folder that is too deep. What its owner may not look at is
    opened for him meanwhile.
    """
    here = os.open(".", _FOLDER_FLAGS, dir_fd=root)
    stack: list[tuple[Iterator[str], os.stat_result, bytes, str]] = []
    try:
        step: Step = (b"d", b"", _unlock(here), here, "", os.listdir(here))
        while True:
            if step[0] == b"d":
                stack.append((iter(sorted(step[5])), step[2], step[1], step[4]))
            yield step
            name = next(stack[-1][0], None)
            if name is None:
                _, info, path, own = stack.pop()
                above = os.open("..", _FOLDER_FLAGS, dir_fd=here) if stack else -1
                _lock(here, info)
                if not stack:
                    yield b"u", path, info, here, own, []
                    return
                os.close(here)
                here = above
                step = (b"u", path, info, here, own, [])
                continue
            info = os.stat(name, dir_fd=here, follow_symlinks=False)
            path = stack[-1][2] + b"/" + os.fsencode(name) if stack[-1][2] else os.fsencode(name)
            if not stat.S_ISDIR(info.st_mode):
                step = (_kind(info.st_mode), path, info, here, name, [])
            elif len(stack) > deepest:
                step = (b"x", path, info, here, name, [])
            else:
                inner = _enter(here, name, info)
                os.close(here)
                here = inner
                step = (b"d", path, info, here, name, os.listdir(here))
    finally:
        os.close(here)


def _kind(mode: int) -> bytes:
    if stat.S_ISREG(mode):
        return b"f"
    return b"l" if stat.S_ISLNK(mode) else b"p" if stat.S_ISFIFO(mode) else b"s"


def _unlock(fd: int) -> os.stat_result:
    info = os.fstat(fd)
    if info.st_mode & 0o700 != 0o700 and info.st_uid == os.geteuid():
        os.fchmod(fd, stat.S_IMODE(info.st_mode) | 0o700)
    return info


def _enter(folder: int, name: str, info: os.stat_result) -> int:
    if info.st_mode & 0o700 != 0o700 and info.st_uid == os.geteuid():
        # No link: lstat said that it is a folder, and nothing runs that could change it.
        os.chmod(name, stat.S_IMODE(info.st_mode) | 0o700, dir_fd=folder)
    return os.open(name, _FOLDER_FLAGS, dir_fd=folder)


def _lock(fd: int, info: os.stat_result) -> None:
    if info.st_mode & 0o700 != 0o700 and info.st_uid == os.geteuid():
        os.fchmod(fd, stat.S_IMODE(info.st_mode))


def open_file(folder: int, name: str, info: os.stat_result) -> int:
    """A regular file for reading, whatever its mode says."""
    if info.st_mode & 0o400 or info.st_uid != os.geteuid():
        return os.open(name, _READ_FLAGS, dir_fd=folder)
    os.chmod(name, stat.S_IMODE(info.st_mode) | 0o400, dir_fd=folder)
    try:
        return os.open(name, _READ_FLAGS, dir_fd=folder)
    finally:
        os.chmod(name, stat.S_IMODE(info.st_mode), dir_fd=folder)


class Packer:
    """Writes trees to ``emit``; what equals ``base``, which may be set between trees, becomes a mark.

    Raises LimitExceeded over the bounds.
    """

    def __init__(
        self, emit: Callable[[bytes], None], base: Base | None, max_files: int = 1 << 60, max_bytes: int = 1 << 60
    ) -> None:
        self._emit = emit
        self.base = base
        self._bounds = (max_files, max_bytes)
        self.files = self._bytes = 0
        self._linked: dict[tuple[int, int], int] = {}

    def tree(self, root: int) -> None:
        for kind, path, info, folder, name, _ in walk(root):
            entry = self.base.entries.get(path) if self.base else None
            if kind == b"f":
                self._file(path, info, folder, name, entry)
            elif kind == b"l":
                self._record(kind, name, info, os.fsencode(os.readlink(name, dir_fd=folder)))
            elif kind == b"u":
                self._emit(HEAD.pack(kind, 0, stat.S_IMODE(info.st_mode), info.st_mtime_ns, 0))
            else:
                self._record(kind, name, info, b"", count=kind != b"d" or entry is None)

    def _record(self, kind: bytes, name: str, info: os.stat_result, payload: bytes, *, count: bool = True) -> None:
        if count:
            self._count(1, len(payload))
        word = os.fsencode(name)
        mode = info.st_mode if kind == b"s" else stat.S_IMODE(info.st_mode)
        self._emit(HEAD.pack(kind, len(word), mode, info.st_mtime_ns, len(payload)) + word + payload)

    def _count(self, files: int, size: int) -> None:
        self.files += files
        self._bytes += size
        most_files, most_bytes = self._bounds
        if self.files > most_files:
            raise LimitExceeded(f"more than {most_files} paths to save")
        if self._bytes > most_bytes:
            raise LimitExceeded(f"more than {most_bytes} bytes to save")

    def _file(self, path: bytes, info: os.stat_result, folder: int, name: str, entry: Entry | None) -> None:
        key = (info.st_dev, info.st_ino)
        if info.st_nlink > 1:
            if key in self._linked:
                self._record(b"h", name, info, struct.pack("<Q", self._linked[key]))
                return
            self._linked[key] = len(self._linked)
        fd = open_file(folder, name, info)
        try:
            if entry and info.st_nlink == 1 and self.base and self.base.same_content(entry, fd, info.st_size):
                self._record(b"k", name, info, b"", count=False)
                return
            extents = _data_extents(fd, info.st_size)
            size = _FILE.size + len(extents) * _EXTENT.size + sum(length for _, length in extents)
            self._count(1, size)
            word = os.fsencode(name)
            kind = b"f" if info.st_nlink == 1 else b"F"
            head = HEAD.pack(kind, len(word), stat.S_IMODE(info.st_mode), info.st_mtime_ns, size) + word
            self._emit(head + _FILE.pack(info.st_size, len(extents)) + b"".join(_EXTENT.pack(*e) for e in extents))
            for offset, length in extents:
                self._copy(fd, offset, offset + length)
        finally:
            os.close(fd)

    def _copy(self, fd: int, offset: int, end: int) -> None:
        while offset < end:
            part = os.pread(fd, min(_CHUNK, end - offset), offset)
            if not part:
                raise OSError("a file became shorter while it was read")
            self._emit(part)
            offset += len(part)


def _data_extents(fd: int, size: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    offset = 0
    while offset < size:
        try:
            start = os.lseek(fd, offset, os.SEEK_DATA)
        except OSError:
            break
        offset = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        found.append((start, offset - start))
    return found


def unpack(data: Any, place: int, root: int, base: Base | None) -> None:
    """Build a packed tree in an empty folder."""
    here = os.open(".", _FOLDER_FLAGS, dir_fd=root)
    linked: list[int] = []
    path: list[bytes] = []
    try:
        for kind, name, mode, time, payload, size in records(data, place):
            if kind == b"d":
                if path:
                    os.mkdir(name, 0o700, dir_fd=here)
                    inner = os.open(name, _FOLDER_FLAGS, dir_fd=here)
                    os.close(here)
                    here = inner
                path.append(name)
            elif kind == b"u":
                path.pop()
                above = os.open("..", _FOLDER_FLAGS, dir_fd=here) if path else os.dup(here)
                os.utime(here, ns=(time, time))
                os.fchmod(here, mode)
                os.close(here)
                here = above
            elif kind == b"k" and base:
                source = base.entries[b"/".join([*path[1:], name])][3]
                os.close(_write(base.data, source, here, name, mode, time))
            elif kind in (b"f", b"F"):
                fd = _write(data, payload, here, name, mode, time)
                linked.append(fd) if kind == b"F" else os.close(fd)
            elif kind == b"h":
                known = f"/proc/self/fd/{linked[struct.unpack_from('<Q', data, payload)[0]]}"
                os.link(known, name, dst_dir_fd=here, follow_symlinks=True)
            elif kind == b"l":
                os.symlink(bytes(data[payload : payload + size]), name, dir_fd=here)
                os.utime(name, ns=(time, time), dir_fd=here, follow_symlinks=False)
            else:
                os.mknod(name, mode | (stat.S_IFIFO if kind == b"p" else 0), dir_fd=here)
                os.chmod(name, stat.S_IMODE(mode), dir_fd=here)
    finally:
        for fd in [here, *linked]:
            os.close(fd)


def _write(data: Any, place: int, folder: int, name: bytes, mode: int, time: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    length, extents = file_extents(data, place)
    for offset, size, source in extents:
        while size:
            done = os.pwrite(fd, data[source : source + min(size, _CHUNK)], offset)
            offset, source, size = offset + done, source + done, size - done
    if length and (not extents or extents[-1][0] + extents[-1][1] != length):
        os.ftruncate(fd, length)
    os.fchmod(fd, mode)
    os.utime(fd, ns=(time, time))
    return fd


def wipe(root: int) -> None:
    """Empty a folder. Folders within folders are moved up first, so that no depth is too deep."""
    os.fchmod(root, 0o700)
    mark = ".wiped-" + os.urandom(8).hex()
    moved = 0
    while True:
        names = os.listdir(root)
        if not names:
            return
        for name in names:
            if not stat.S_ISDIR(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=root)
                continue
            os.chmod(name, 0o700, dir_fd=root)
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=root)
            try:
                for child in os.listdir(inner):
                    try:
                        os.unlink(child, dir_fd=inner)
                    except IsADirectoryError:
                        moved += 1
                        os.chmod(child, 0o700, dir_fd=inner)
                        os.rename(child, mark + str(moved), src_dir_fd=inner, dst_dir_fd=root)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=root)
