"""The changes that a command made in a workspace, read from the frozen tree. Stdlib only, Python 3.8."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .lower import Entry, LowerFolder, folder_in
from .touched import Watched
from .tree_access import MAX_DEPTH, READ_FOLDER, LimitExceeded, is_opaque, opened, read_link, read_range


@dataclass(frozen=True)
class Change:
    """One path that differs from the workspace's lower tree. Folders themselves are not reported."""

    path: str
    """Path relative to the workspace."""
    kind: str
    """``file``, ``symlink``, ``deleted`` (a file, or a folder with all below) or ``special`` (FIFO, socket, device,
    a folder that is too deep)."""
    size: int = 0
    """Bytes of a file, or of a link's target."""
    executable: bool = False
    """Whether the owner may execute the file."""
    content: bytes | None = None
    """A file's content, None when it is larger than was asked for; a link's target."""


@dataclass(frozen=True)
class ChangeLimits:
    """How much a list of changes may hold."""

    max_files: int
    """Changes in all."""
    max_bytes: int
    """Bytes of one file's content."""
    max_total: int
    """Bytes of all contents together."""


def find_changes(
    folder: int,
    lower: LowerFolder,
    limits: ChangeLimits,
    *,
    overlay: bool = False,
    watched: Watched | None = None,
    keep: Callable[[bytes], Any] = bytes,
) -> list[Change]:
    """Return what differs between an open folder and its lower tree, sorted by path.

    ``overlay`` says that the folder is an upper folder, not a whole copy. What ``watched`` reports as untouched
    is not read. ``keep`` gets each content and returns what the change holds in its place. Raises LimitExceeded when
    there are more changes than ``limits`` allow.
    """
    comparison = _Comparison(limits, overlay, keep, limits.max_total)
    comparison.compare(_Pair(folder, lower, watched, "", 0))
    return sorted(comparison.changes, key=lambda change: change.path)


class _Pair(NamedTuple):
    """A folder, the lower one if there is one, its watch, and its place in the tree."""

    folder: int
    lower: LowerFolder | None
    watched: Watched | None
    prefix: str
    depth: int


@dataclass
class _Comparison:
    """One walk through a tree, and the changes that it met."""

    limits: ChangeLimits
    overlay: bool
    keep: Callable[[bytes], Any]
    budget: int
    changes: list[Change] = field(default_factory=list)

    def _add(self, change: Change) -> None:
        if len(self.changes) >= self.limits.max_files:
            raise LimitExceeded(f"more than {self.limits.max_files} paths changed; ask for more with max_files")
        self.changes.append(change)

    def compare(self, pair: _Pair) -> None:
        """Compare a folder with its lower one."""
        watched = pair.watched
        if watched is not None and not watched.touched:
            names = [name for name, child in watched.children.items() if child.below]
        else:
            names = os.listdir(pair.folder)
            if pair.lower is not None and (not self.overlay or is_opaque(pair.folder)):
                for name in set(pair.lower.names()) - set(names):
                    self._add(Change(pair.prefix + name, "deleted"))
        for name in names:
            info = os.stat(name, dir_fd=pair.folder, follow_symlinks=False)
            child = watched.child(name, info) if watched is not None else None
            if child is None or child.below:
                self._compare_name(pair, name, info, child)

    def _compare_name(self, pair: _Pair, name: str, info: os.stat_result, watched: Watched | None) -> None:
        path = pair.prefix + name
        before = pair.lower.entry(name) if pair.lower is not None else None
        if self.overlay and stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
            if before is not None:
                self._add(Change(path, "deleted"))
        elif stat.S_ISDIR(info.st_mode):
            self._compare_folder(pair, name, before, watched)
        elif stat.S_ISLNK(info.st_mode):
            target = read_link(pair.folder, name)
            was_link = before is not None and stat.S_ISLNK(before.mode)
            if pair.lower is None or not was_link or pair.lower.target(name) != target:
                self._add(Change(path, "symlink", len(target), content=target))
        elif stat.S_ISREG(info.st_mode):
            self._compare_file(pair, name, info, before)
        else:
            self._add(Change(path, "special"))

    def _compare_folder(self, pair: _Pair, name: str, before: Entry | None, watched: Watched | None) -> None:
        path = pair.prefix + name
        if pair.depth >= MAX_DEPTH:
            self._add(Change(path, "special"))
            return
        if before is not None and not stat.S_ISDIR(before.mode):
            self._add(Change(path, "deleted"))
        with opened(pair.folder, name, READ_FOLDER) as inner, folder_in(pair.lower, name, before) as below:
            self.compare(_Pair(inner, below, watched, path + "/", pair.depth + 1))

    def _compare_file(self, pair: _Pair, name: str, info: os.stat_result, before: Entry | None) -> None:
        executable = bool(info.st_mode & 0o100)
        with opened(pair.folder, name) as file:
            if pair.lower is not None and before is not None and stat.S_ISREG(before.mode):
                same_kind = before.size == info.st_size and bool(before.mode & 0o100) == executable
                if same_kind and pair.lower.holds(name, file):
                    return
            content = None
            if info.st_size <= min(self.limits.max_bytes, self.budget):
                data = read_range(file, 0, info.st_size)
                self.budget -= len(data)
                content = self.keep(data)
            self._add(Change(pair.prefix + name, "file", info.st_size, executable, content))
