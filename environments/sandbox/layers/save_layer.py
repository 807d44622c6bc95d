"""Keeping a writable layer, read by our own code while nothing runs in it (``laying`` puts it down again).

A layer is kept as a tree of small records with the files' bytes, in this process's memory: nothing of it is left when
the process dies. Records and bytes that have not changed are shared with the save before, so a turn costs what it
wrote. Kept: content (holes too), modes, modification times, empty folders, symbolic and hard links, FIFOs and sockets,
extended ``user.`` attributes, whiteouts and opaque folders. Not kept: access times, ACLs, owners (all of it is the
sandbox user's).

The tree belongs to an adversary: see ``changes`` for how it is walked. Its files are compared by content, since a
writer can hide from the times: through a shared mapping on an older kernel, or within one tick of the clock.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ....errors import SandboxError
from .changes import MAX_DEPTH, READ, is_opaque, lstat, opened, read_range, same_content

_RECORD_BYTES = 400
_SETTLED_NS = 20_000_000
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class File:
    """``extents`` are offsets and bytes, holes left out; None: as in the lower tree. ``linked`` names a hard link."""

    stamp: tuple[int, ...]
    mode: int
    mtime: int
    size: int
    linked: int
    extents: tuple[tuple[int, bytes], ...] | None
    attributes: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Folder:
    mode: int
    mtime: int
    opaque: bool
    attributes: Mapping[str, bytes]
    children: Mapping[str, Node]


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    mtime: int
    target: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Special:
    """A FIFO, a socket or a whiteout; ``mode`` holds the kind."""

    mode: int
    mtime: int


Node = File | Folder | Link | Special


class Saved:
    """A kept layer; see ``SavedLayer``. ``of`` says what it fits: the backend and the lower tree."""

    def __init__(self, of: tuple[str, Path], tree: Folder, size: int) -> None:
        self.size = size
        self._of = of
        self._tree: Folder | None = tree

    def close(self) -> None:
        self._tree = None

    def tree(self, of: tuple[str, Path]) -> Folder:
        """Raises SandboxError when it is closed, or of another backend or workspace."""
        if self._tree is None:
            raise SandboxError("this saved layer is closed: restore before close")
        if self._of != of:
            raise SandboxError(f"this layer was saved by {self._of[0]} over {self._of[1]}: it fits no other")
        return self._tree


def tree_of(saved: object, of: tuple[str, Path]) -> Folder:
    """The tree in what ``restore`` was given. Raises SandboxError when it does not fit."""
    if not isinstance(saved, Saved):
        raise SandboxError(f"a {type(saved).__name__} was not saved by {of[0]}")
    return saved.tree(of)


# --- Saving -------------------------------------------------------------------------------------------------


@dataclass
class _Scan:
    """One walk: the limits, what was met, and the bytes that no earlier save holds."""

    max_files: int
    max_bytes: int
    started: int = field(default_factory=time.time_ns)
    files: int = 0
    bytes: int = 0
    fresh: int = 0
    linked: dict[int, File] = field(default_factory=dict)

    def count(self) -> None:
        self.files += 1
        if self.files > self.max_files:
            raise ValueError(f"the writable layer holds more than {self.max_files} paths: too many to keep")

    def weigh(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self.max_bytes:
            raise ValueError(f"the writable layer holds more than {self.max_bytes} bytes: too many to keep")


def scan(
    layer: int, before: Folder | None, max_files: int, max_bytes: int, lowers: Mapping[str, Path | None]
) -> tuple[Folder, int]:
    """The folders named in ``lowers`` as they are now below ``layer``, and the bytes not shared with ``before``.

    A lower tree makes the folder a whole copy of it, of which only the differences are kept; None makes it an upper
    folder (or one of its own). Raises ValueError when there is more than the limits allow, or a folder too deep.
    """
    walk = _Scan(max_files, max_bytes)
    children: dict[str, Node] = {}
    for name, lower in lowers.items():
        below = None if lower is None else os.open(lower, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            info = os.stat(name, dir_fd=layer, follow_symlinks=False)
            children[name] = _scan_folder(walk, layer, name, info, _child(before, name), below, 0)
        finally:
            if below is not None:
                os.close(below)
    tree = Folder(0, 0, False, {}, children)
    if before is not None and all(children[name] is before.children.get(name) for name in children):
        return before, 0
    return tree, walk.fresh


def _child(folder: Node | None, name: str) -> Node | None:
    return folder.children.get(name) if isinstance(folder, Folder) else None


def _scan_folder(
    walk: _Scan, parent: int, name: str, info: os.stat_result, before: Node | None, lower: int | None, depth: int
) -> Folder:
    if depth > MAX_DEPTH:
        raise ValueError(f"the writable layer has folders deeper than {MAX_DEPTH}: too deep to keep")
    with opened(parent, name, READ | os.O_DIRECTORY) as folder:
        children: dict[str, Node] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                old = _child(before, entry.name)
                children[entry.name] = _scan_entry(walk, folder, entry.name, found, old, lower, depth)
        opaque, attributes = is_opaque(folder), _attributes(folder)
    mode, mtime = stat.S_IMODE(info.st_mode), info.st_mtime_ns
    if (
        isinstance(before, Folder)
        and (before.mode, before.mtime, before.opaque) == (mode, mtime, opaque)
        and before.attributes == attributes
        and len(before.children) == len(children)
        and all(before.children.get(name) is node for name, node in children.items())
    ):
        return before
    walk.fresh += _RECORD_BYTES
    return Folder(mode, mtime, opaque, attributes, children)


def _scan_entry(
    walk: _Scan, folder: int, name: str, info: os.stat_result, before: Node | None, lower: int | None, depth: int
) -> Node:
    """The record of one name; the one before when nothing about it changed."""
    if stat.S_ISREG(info.st_mode):
        return _scan_file(walk, folder, name, info, before, lower)
    if stat.S_ISDIR(info.st_mode):
        below = lstat(lower, name)
        if below is not None and stat.S_ISDIR(below.st_mode):
            with opened(lower, name, READ | os.O_DIRECTORY) as inner:
                return _scan_folder(walk, folder, name, info, before, inner, depth + 1)
        walk.count()
        return _scan_folder(walk, folder, name, info, before, None, depth + 1)
    walk.count()
    if stat.S_ISLNK(info.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=folder))
        if isinstance(before, Link) and (before.mtime, before.target) == (info.st_mtime_ns, target):
            return before
        walk.fresh += _RECORD_BYTES
        return Link(info.st_mtime_ns, target)
    if isinstance(before, Special) and (before.mode, before.mtime) == (info.st_mode, info.st_mtime_ns):
        return before
    walk.fresh += _RECORD_BYTES
    return Special(info.st_mode, info.st_mtime_ns)


def _scan_file(
    walk: _Scan, folder: int, name: str, info: os.stat_result, before: Node | None, lower: int | None
) -> File:
    linked = info.st_ino if info.st_nlink > 1 else 0
    if linked in walk.linked:
        walk.count()
        return walk.linked[linked]
    old = before if isinstance(before, File) else None
    stamp = (info.st_ino, info.st_size, info.st_mode, info.st_mtime_ns, info.st_ctime_ns)
    if old is not None and old.extents is None and old.stamp == stamp and walk.started - stamp[-1] > _SETTLED_NS:
        return old
    mode = stat.S_IMODE(info.st_mode)
    with opened(folder, name, READ) as file:
        attributes = _attributes(file)
        if lower is not None and not linked and not attributes and _is_lower(file, info, lower, name):
            return File(stamp, mode, info.st_mtime_ns, info.st_size, 0, None, {})
        walk.count()
        extents = _extents(walk, file, info, dict(old.extents or ()) if old is not None else {})
    node = File(stamp, mode, info.st_mtime_ns, info.st_size, linked, extents, attributes)
    if old is not None and _same(old, node):
        node = old
    else:
        walk.fresh += _RECORD_BYTES
    if linked:
        walk.linked[linked] = node
    return node


def _same(old: File, new: File) -> bool:
    """Whether two records say the same; ``new`` took over the bytes that did not change."""
    if old.extents is None or new.extents is None or len(old.extents) != len(new.extents):
        return False
    return (old.mode, old.mtime, old.size, old.linked, old.attributes) == (
        new.mode,
        new.mtime,
        new.size,
        new.linked,
        new.attributes,
    ) and all(one[1] is other[1] for one, other in zip(old.extents, new.extents, strict=True))


def _extents(walk: _Scan, file: int, info: os.stat_result, known: Mapping[int, bytes]) -> tuple[tuple[int, bytes], ...]:
    """What the file holds, in pieces; a piece that is among the ``known`` ones is that one."""
    found = []
    for start, length in _data(file, info):
        walk.weigh(length)
        data = read_range(file, start, length)
        if known.get(start) == data:
            data = known[start]
        else:
            walk.fresh += len(data)
        found.append((start, data))
    return tuple(found)


def _data(file: int, info: os.stat_result) -> Iterator[tuple[int, int]]:
    """Where the file holds data: offsets and lengths of pieces."""
    size, offset = info.st_size, 0
    whole = info.st_blocks * 512 >= size
    while offset < size:
        try:
            start = offset if whole else os.lseek(file, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # a hole up to the end
                raise
            return
        end = size if whole else os.lseek(file, start, os.SEEK_HOLE)
        offset = min(end, start + _PIECE)
        yield start, offset - start


def _is_lower(file: int, info: os.stat_result, lower: int, name: str) -> bool:
    """Whether a file of a copied tree is still what it was copied from."""
    below = lstat(lower, name)
    if below is None or not stat.S_ISREG(below.st_mode):
        return False
    if (below.st_mode, below.st_size, below.st_mtime_ns) != (info.st_mode, info.st_size, info.st_mtime_ns):
        return False
    with opened(lower, name, READ) as original:
        return same_content(file, original)


def _attributes(file: int) -> dict[str, bytes]:
    try:
        names = os.listxattr(file)
    except OSError:  # this file system has none
        return {}
    mine = [name for name in names if name.startswith("user.") and not name.startswith("user.overlay.")]
    return {name: os.getxattr(file, name) for name in mine}
