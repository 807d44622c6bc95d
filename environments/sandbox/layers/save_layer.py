"""Saving a writable layer while nothing runs in it. Stdlib only, Python 3.8: the containers' worker uses it.

A layer is saved as records with the files' contents, in memory, so nothing outlives the process. Records and contents
that did not change are shared with the save before. Files are compared by content, since times can be forged.

Saved: contents and holes, modes, times of change, empty folders, symbolic and hard links, FIFOs, sockets, extended
``user.`` attributes, an overlay's deleted names and opaque folders. Not saved: times of access, access lists, owners
(the sandbox user owns everything).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from . import tree_access
from .lower import Entry, LowerFolder, folder_in
from .records import SAME, File, Folder, Link, Same, Special
from .touched import Watched
from .tree_access import MAX_DEPTH, READ_FOLDER, LimitExceeded, opened

if TYPE_CHECKING:
    from .records import Content, Node

_RECORD_BYTES = 400
_NO_LIMIT = 1 << 60


class LayerFolder(NamedTuple):
    """One open folder of a writable layer."""

    folder: int
    lower: LowerFolder | None = None
    """The tree that the folder began as a whole copy of; what is still as there is not saved."""
    watched: Watched | None = None
    """The watch on it since then."""


class SavedTree(NamedTuple):
    """A tree, with what it cost."""

    tree: Folder
    fresh: int
    """Bytes that are not shared with the save before."""
    paths: int
    """How many paths were saved."""


def save_layer(
    folders: Mapping[str, LayerFolder],
    before: Folder | None = None,
    *,
    max_files: int = _NO_LIMIT,
    max_bytes: int = _NO_LIMIT,
    keep: Callable[[bytes], Any] = bytes,
) -> SavedTree:
    """Return the folders as one tree.

    ``keep`` gets each content and returns what the record holds in its place. Raises LimitExceeded when there are more
    than ``max_files`` paths or ``max_bytes`` bytes, or a folder is deeper than MAX_DEPTH.
    """
    save = _Save(max_files, max_bytes, keep)
    children: dict[str, Node] = {}
    for name, (folder, lower, watched) in folders.items():
        children[name] = save.folder(_Pair(folder, lower, watched, 0), os.fstat(folder), _child(before, name))
    if before is not None and all(children[name] is before.children.get(name) for name in children):
        return SavedTree(before, 0, save.files)
    return SavedTree(Folder(0, 0, False, {}, children), save.fresh, save.files)


def _child(folder: Node | None, name: str) -> Node | None:
    return folder.children.get(name) if isinstance(folder, Folder) else None


class _Pair(NamedTuple):
    """A folder, the lower one if there is one, its watch, and its depth."""

    folder: int
    lower: LowerFolder | None
    watched: Watched | None
    depth: int


@dataclass
class _Save:
    """One walk: the limits, what was counted, and the bytes that no earlier save holds."""

    max_files: int
    max_bytes: int
    keep: Callable[[bytes], Any]
    files: int = 0
    bytes: int = 0
    fresh: int = 0
    linked: dict[int, File] = field(default_factory=dict)

    def _count_path(self) -> None:
        self.files += 1
        if self.files > self.max_files:
            raise LimitExceeded(f"the writable layer holds more than {self.max_files} paths: too many to save")

    def _count_bytes(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self.max_bytes:
            raise LimitExceeded(f"the writable layer holds more than {self.max_bytes} bytes: too many to save")

    def folder(self, pair: _Pair, info: os.stat_result, before: Node | None) -> Folder:
        """Return the record of an open folder; the one before when nothing about it changed."""
        if pair.depth > MAX_DEPTH:
            raise LimitExceeded(f"the writable layer has folders deeper than {MAX_DEPTH}: too deep to save")
        children: dict[str, Node] = {}
        for name in os.listdir(pair.folder):
            children[name] = self._name(pair, name, _child(before, name))
        opaque, attributes = tree_access.is_opaque(pair.folder), tree_access.user_attributes(pair.folder)
        mode, mtime = stat.S_IMODE(info.st_mode), info.st_mtime_ns
        if (
            isinstance(before, Folder)
            and before[:4] == (mode, mtime, opaque, attributes)
            and len(before.children) == len(children)
            and all(before.children.get(name) is node for name, node in children.items())
        ):
            return before
        self.fresh += _RECORD_BYTES
        return Folder(mode, mtime, opaque, attributes, children)

    def _name(self, pair: _Pair, name: str, before: Node | None) -> Node:
        if pair.watched is not None and not pair.watched.touched and name not in pair.watched.children:
            return SAME  # a link or a special file, which is watched by its folder
        info = os.stat(name, dir_fd=pair.folder, follow_symlinks=False)
        watched = pair.watched.child(name, info) if pair.watched is not None else None
        if watched is not None and not watched.below:
            return SAME
        entry = pair.lower.entry(name) if pair.lower is not None else None
        if stat.S_ISREG(info.st_mode):
            return self._file(pair, name, info, entry, before)
        if stat.S_ISDIR(info.st_mode):
            with opened(pair.folder, name, READ_FOLDER) as inner, folder_in(pair.lower, name, entry) as below:
                if below is None:
                    self._count_path()
                return self.folder(_Pair(inner, below, watched, pair.depth + 1), info, before)
        return self._other(pair, name, info, entry, before)

    def _file(
        self, pair: _Pair, name: str, info: os.stat_result, entry: Entry | None, before: Node | None
    ) -> File | Same:
        linked = info.st_ino if info.st_nlink > 1 else 0
        if linked in self.linked:
            self._count_path()
            return self.linked[linked]
        with opened(pair.folder, name) as file:
            attributes = tree_access.user_attributes(file)
            same_entry = entry == Entry(info.st_mode, info.st_mtime_ns, info.st_size) and not linked and not attributes
            if pair.lower is not None and same_entry and pair.lower.holds(name, file):
                return SAME
            self._count_path()
            old = before if isinstance(before, File) else None
            extents = self._extents(file, info, dict(old.extents) if old is not None else {})
        node = File(stat.S_IMODE(info.st_mode), info.st_mtime_ns, info.st_size, linked, extents, attributes)
        if old is not None and _is_unchanged(old, node):
            node = old
        else:
            self.fresh += _RECORD_BYTES
        if linked:
            self.linked[linked] = node
        return node

    def _extents(
        self, file: int, info: os.stat_result, before: Mapping[int, Content]
    ) -> tuple[tuple[int, Content], ...]:
        """Return the file's content in pieces; a piece that did not change is the one before."""
        extents = []
        for start, length in tree_access.data_ranges(file, info):
            self._count_bytes(length)
            data = tree_access.read_range(file, start, length)
            content = before.get(start)
            if content != data:
                self.fresh += len(data)
                content = self.keep(data)
            extents.append((start, content))
        return tuple(extents)

    def _other(self, pair: _Pair, name: str, info: os.stat_result, entry: Entry | None, before: Node | None) -> Node:
        """Return the record of a symbolic link or a special file; the one before when nothing about it changed."""
        node: Link | Special
        if stat.S_ISLNK(info.st_mode):
            target = tree_access.read_link(pair.folder, name)
            node = Link(info.st_mtime_ns, target)
            same_entry = entry is not None and (entry.mode, entry.mtime) == (info.st_mode, info.st_mtime_ns)
            if pair.lower is not None and same_entry and pair.lower.target(name) == target:
                return SAME
        else:
            node = Special(info.st_mode, info.st_mtime_ns)
        self._count_path()
        if before == node and type(before) is type(node):
            return before
        self.fresh += _RECORD_BYTES
        return node


def _is_unchanged(old: File, new: File) -> bool:
    """Return whether two records are equal; unchanged contents are the same objects."""
    if old._replace(extents=()) != new._replace(extents=()) or len(old.extents) != len(new.extents):
        return False
    return all(old.extents[index][1] is content for index, (_, content) in enumerate(new.extents))
