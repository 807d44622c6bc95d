"""The lower tree, with whose content a workspace starts: a folder of this machine, or records in memory.

Stdlib only, Python 3.8: the containers' worker uses it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple, Protocol

from .records import File, Folder, Link, Sent, Special
from .tree_access import READ_FOLDER, lstat, opened, read_link, read_range, write_range

_PIECE = 1 << 20


class Entry(NamedTuple):
    """The status of one name; ``mode`` holds the kind, ``mtime`` is in nanoseconds."""

    mode: int
    mtime: int
    size: int


class LowerFolder(Protocol):
    """One folder of a lower tree."""

    def names(self) -> Collection[str]:
        """Return the names in the folder."""

    def entry(self, name: str) -> Entry | None:
        """Return the status of a name, ``.`` for the folder itself; None when it does not exist."""

    def target(self, name: str) -> bytes:
        """Return a symbolic link's target."""

    def folder(self, name: str) -> AbstractContextManager[LowerFolder]:
        """Open a folder in this one."""

    def holds(self, name: str, file: int) -> bool:
        """Return whether the file ``name`` has the content of an open file of the same size."""

    def copy(self, name: str, file: int) -> None:
        """Write the content of the file ``name`` to an open, empty file."""


class DiskFolder:
    """An open folder of this machine."""

    def __init__(self, folder: int) -> None:
        self._folder = folder

    def names(self) -> Collection[str]:
        return os.listdir(self._folder)

    def entry(self, name: str) -> Entry | None:
        info = lstat(self._folder, name)
        return None if info is None else Entry(info.st_mode, info.st_mtime_ns, info.st_size)

    def target(self, name: str) -> bytes:
        return read_link(self._folder, name)

    @contextmanager
    def folder(self, name: str) -> Iterator[DiskFolder]:
        with opened(self._folder, name, READ_FOLDER) as inner:
            yield DiskFolder(inner)

    def holds(self, name: str, file: int) -> bool:
        with opened(self._folder, name) as original:
            offset = 0
            while True:
                data = os.pread(original, _PIECE, offset)
                if data != os.pread(file, _PIECE, offset):
                    return False
                if not data:
                    return True
                offset += len(data)

    def copy(self, name: str, file: int) -> None:
        with opened(self._folder, name) as original:
            while os.sendfile(file, original, None, 1 << 30):
                continue


@contextmanager
def disk_tree(path: Path) -> Iterator[DiskFolder]:
    """Open a lower tree on this machine."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield DiskFolder(folder)
    finally:
        os.close(folder)


class RecordedFolder:
    """A folder of a tree in memory."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def names(self) -> Collection[str]:
        return self._folder.children.keys()

    def entry(self, name: str) -> Entry | None:
        node = self._folder if name == "." else self._folder.children.get(name)
        if isinstance(node, Folder):
            return Entry(stat.S_IFDIR | node.mode, node.mtime, 0)
        if isinstance(node, File):
            return Entry(stat.S_IFREG | node.mode, node.mtime, node.size)
        if isinstance(node, Link):
            return Entry(stat.S_IFLNK | 0o777, node.mtime, len(node.target))
        return Entry(node.mode, node.mtime, 0) if isinstance(node, Special) else None

    def target(self, name: str) -> bytes:
        node = self._folder.children[name]
        assert isinstance(node, Link)
        return node.target

    def folder(self, name: str) -> AbstractContextManager[RecordedFolder]:
        node = self._folder.children[name]
        assert isinstance(node, Folder)
        return nullcontext(RecordedFolder(node))

    def holds(self, name: str, file: int) -> bool:
        node, end = self._file(name), 0
        for offset, data in [*_contents(node), (node.size, b"")]:
            if not _is_hole(file, end, offset) or read_range(file, offset, len(data)) != data:
                return False
            end = offset + len(data)
        return True

    def copy(self, name: str, file: int) -> None:
        write_file(file, self._file(name))

    def _file(self, name: str) -> File:
        node = self._folder.children[name]
        assert isinstance(node, File)
        return node


def folder_in(lower: LowerFolder | None, name: str, entry: Entry | None) -> AbstractContextManager[LowerFolder | None]:
    """Open a folder of a lower folder; None where it is missing or of another kind."""
    if lower is None or entry is None or not stat.S_ISDIR(entry.mode):
        return nullcontext()
    return lower.folder(name)


def write_file(file: int, node: File) -> None:
    """Write a record's content to an open, empty file; holes stay holes."""
    for offset, data in _contents(node):
        write_range(file, offset, data)
    os.ftruncate(file, node.size)


def _contents(node: File) -> Iterator[tuple[int, bytes | memoryview]]:
    return ((offset, data) for offset, data in node.extents if not isinstance(data, Sent))


def _is_hole(file: int, start: int, end: int) -> bool:
    return not any(
        read_range(file, place, min(_PIECE, end - place)).strip(b"\0") for place in range(start, end, _PIECE)
    )
