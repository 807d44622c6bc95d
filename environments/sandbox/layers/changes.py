"""What a command changed in a workspace, read from the frozen writable layer by our own code.

The tree belongs to an adversary but nothing runs in it: every step is a ``dir_fd``-relative lstat or open that follows
no link and never blocks, and whatever is neither a regular file nor a plain link is named, not touched.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .. import Change

# No honest tree is deeper; below, a folder is reported as special, unread.
MAX_DEPTH = 128
NO_FOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | NO_FOLLOW
_CHUNK = 1 << 20


@dataclass
class _Walk:
    """One comparison: the limits, and what was found so far."""

    max_files: int
    max_bytes: int
    budget: int
    found: list[Change] = field(default_factory=list)

    def add(self, change: Change) -> None:
        if len(self.found) >= self.max_files:
            raise ValueError(f"more than {self.max_files} paths changed")
        self.found.append(change)


def upper_changes(upper: int, lower: Path, max_files: int, max_bytes: int, max_total: int) -> list[Change]:
    """The changes that an overlay's upper folder holds, sorted by path.

    Contents are kept up to ``max_bytes`` each and ``max_total`` together. Raises ValueError when there are more than
    ``max_files`` changes.
    """
    walk = _Walk(max_files, max_bytes, max_total)
    below = os.open(lower, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _compare(walk, upper, below, "", 0, overlay=True)
    finally:
        os.close(below)
    return sorted(walk.found, key=lambda change: change.path)


def tree_changes(tree: int, lower: Path, max_files: int, max_bytes: int, max_total: int) -> list[Change]:
    """As ``upper_changes``, for a whole copy of the lower tree."""
    walk = _Walk(max_files, max_bytes, max_total)
    below = os.open(lower, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _compare(walk, tree, below, "", 0, overlay=False)
    finally:
        os.close(below)
    return sorted(walk.found, key=lambda change: change.path)


def _compare(walk: _Walk, folder: int, lower: int | None, prefix: str, depth: int, *, overlay: bool) -> None:
    """Report what differs between a written folder and its lower one (None: there is none)."""
    names = os.listdir(folder)
    if lower is not None and (not overlay or is_opaque(folder)):
        for name in set(os.listdir(lower)) - set(names):
            walk.add(Change(prefix + name, "deleted"))
    for name in names:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        before = lstat(lower, name)
        path = prefix + name
        if overlay and stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
            if before is not None:
                walk.add(Change(path, "deleted"))
        elif stat.S_ISDIR(info.st_mode):
            _compare_folder(walk, folder, lower, name, before, path, depth, overlay=overlay)
        elif stat.S_ISLNK(info.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=folder))
            if before is None or not stat.S_ISLNK(before.st_mode) or target != _link_target(lower, name):
                walk.add(Change(path, "symlink", len(target), content=target))
        elif stat.S_ISREG(info.st_mode):
            _compare_file(walk, folder, lower, name, info, before, path)
        else:
            walk.add(Change(path, "special"))


def _compare_folder(
    walk: _Walk,
    folder: int,
    lower: int | None,
    name: str,
    before: os.stat_result | None,
    path: str,
    depth: int,
    *,
    overlay: bool,
) -> None:
    if depth >= MAX_DEPTH:
        walk.add(Change(path, "special"))
        return
    was_folder = before is not None and stat.S_ISDIR(before.st_mode)
    if before is not None and not was_folder:
        walk.add(Change(path, "deleted"))
    with opened(folder, name, READ | os.O_DIRECTORY) as inner:
        below = os.open(name, READ | os.O_DIRECTORY, dir_fd=lower) if was_folder else None
        try:
            _compare(walk, inner, below, path + "/", depth + 1, overlay=overlay)
        finally:
            if below is not None:
                os.close(below)


def _compare_file(
    walk: _Walk,
    folder: int,
    lower: int | None,
    name: str,
    info: os.stat_result,
    before: os.stat_result | None,
    path: str,
) -> None:
    executable = bool(info.st_mode & 0o100)
    with opened(folder, name, READ) as file:
        if before is not None and stat.S_ISREG(before.st_mode) and _same_kind(info, before):
            with opened(lower, name, READ) as original:
                if same_content(file, original):
                    return
        content = None
        if info.st_size <= walk.max_bytes and info.st_size <= walk.budget:
            content = read_range(file, 0, info.st_size)
            walk.budget -= len(content)
        walk.add(Change(path, "file", info.st_size, executable, content))


def _same_kind(one: os.stat_result, other: os.stat_result) -> bool:
    return one.st_size == other.st_size and bool(one.st_mode & 0o100) == bool(other.st_mode & 0o100)


def same_content(one: int, other: int) -> bool:
    """Whether two open files hold the same bytes."""
    offset = 0
    while True:
        left, right = os.pread(one, _CHUNK, offset), os.pread(other, _CHUNK, offset)
        if left != right:
            return False
        if not left:
            return True
        offset += len(left)


def read_range(fd: int, offset: int, size: int) -> bytes:
    """Up to ``size`` bytes from ``offset``."""
    parts = []
    end = offset + size
    while offset < end and (part := os.pread(fd, min(_CHUNK, end - offset), offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def is_opaque(folder: int) -> bool:
    """Whether an upper folder replaces its lower one instead of being merged with it."""
    try:
        return os.getxattr(folder, opaque_mark()) in (b"y", b"x")
    except OSError:
        return False


@functools.cache
def opaque_mark() -> str:
    """Where this user's overlays keep the mark. The other name is any file's owner's to set, and means nothing."""
    root = os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
    return f"{'trusted' if root else 'user'}.overlay.opaque"


def lstat(folder: int | None, name: str) -> os.stat_result | None:
    """What ``name`` is in an open folder; None when there is no such name, or no folder."""
    if folder is None:
        return None
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _link_target(folder: int | None, name: str) -> bytes:
    return os.fsencode(os.readlink(name, dir_fd=folder))


@contextmanager
def opened(folder: int | None, name: str, flags: int) -> Iterator[int]:
    """Open for reading; where the owner (we) took its own right to read, it gets it back meanwhile."""
    try:
        fd = os.open(name, flags, dir_fd=folder)
    except PermissionError:
        with _unlocked(folder, name, flags) as fd:
            yield fd
        return
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _unlocked(folder: int | None, name: str, flags: int) -> Iterator[int]:
    handle = os.open(name, os.O_PATH | NO_FOLLOW, dir_fd=folder)
    same = f"/proc/self/fd/{handle}"
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    try:
        os.chmod(same, mode | 0o500)
        fd = os.open(same, flags & ~os.O_NOFOLLOW)
        try:
            yield fd
        finally:
            os.close(fd)
    finally:
        os.chmod(same, mode)
        os.close(handle)
