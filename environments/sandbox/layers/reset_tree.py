"""Resetting a copied tree to its lower tree while nothing runs in it. Stdlib only, Python 3.8.

What was not touched since the last reset is neither opened nor read, so the cost depends on what a command used and
not on the size of the tree. What was touched is removed and written again. Hard links of the lower tree become files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable

from .lower import Entry, LowerFolder
from .touched import TreeWatch, Watched
from .tree_access import READ_FOLDER, created, lstat, make_folder, make_special, opened, remove, remove_attributes


def reset_tree(folder: int, lower: LowerFolder, watch: TreeWatch, owner: int | None) -> None:
    """Make an open folder equal to ``lower``; ``owner`` gets what is made (None: this user). Raises OSError.

    ``watch`` says what was touched, and watches the tree afterwards.
    """
    watched = watch.collect()
    if watched is None:
        watch.restart()
    watch.root = None  # until the tree is complete again
    _clear(folder, lower, watched)
    watch.finish(_TreeWriter(watch, owner).write_folder(folder, lower, watched))


def _names(watched: Watched | None, all_names: Callable[[], Iterable[str]]) -> list[str]:
    """Return the names to look at: ``all_names()``, or those with something touched where the folder itself was not."""
    if watched is None or watched.touched:
        return list(all_names())
    return [name for name, child in watched.children.items() if child.below]


def _clear(folder: int, lower: LowerFolder, watched: Watched | None) -> None:
    """Remove everything that may differ from the lower folder; folders that are in both stay.

    This is done in the whole tree before anything is written, since a full disk would leave no room.
    """
    os.fchmod(folder, 0o700)
    remove_attributes(folder)
    for name in _names(watched, lambda: os.listdir(folder)):
        info = lstat(folder, name)
        child = watched.child(name, info) if watched is not None and info is not None else None
        if info is None or (child is not None and not child.below):
            continue
        entry = lower.entry(name)
        if stat.S_ISDIR(info.st_mode) and entry is not None and stat.S_ISDIR(entry.mode):
            os.chmod(name, 0o700, dir_fd=folder)
            with opened(folder, name, READ_FOLDER) as inner, lower.folder(name) as below:
                _clear(inner, below, child)
        else:
            remove(folder, name)


class _TreeWriter:
    """Writes what is missing in a cleared tree."""

    def __init__(self, watch: TreeWatch, owner: int | None) -> None:
        self._watch = watch
        self._owner = owner

    def write_folder(self, folder: int, lower: LowerFolder, watched: Watched | None) -> Watched:
        """Complete an open folder and watch it."""
        untouched = {} if watched is None or watched.touched else watched.children
        children = {name: child for name, child in untouched.items() if not child.below}
        for name in _names(watched, lower.names):
            info = lstat(folder, name)
            child = watched.child(name, info) if watched is not None and info is not None else None
            if child is None or child.below:
                child = self._write_name(folder, lower, name, child, exists=info is not None)
            if child is not None:
                children[name] = child
        entry = _entry(lower, ".")
        os.fchmod(folder, stat.S_IMODE(entry.mode))
        os.utime(folder, ns=(entry.mtime, entry.mtime))
        if watched is not None:
            watched.parent = None  # reports on the old watch are about what was done here
        return self._watch.watch_folder(folder, children)

    def _write_name(
        self, folder: int, lower: LowerFolder, name: str, watched: Watched | None, *, exists: bool
    ) -> Watched | None:
        """Write one name; links and special files are watched by their folder alone."""
        entry = _entry(lower, name)
        if stat.S_ISREG(entry.mode):
            with created(folder, name, entry.mode, entry.mtime, self._owner) as file:
                lower.copy(name, file)
                inode = os.fstat(file).st_ino
            return self._watch.watch_file(folder, name, inode)
        if stat.S_ISDIR(entry.mode):
            if not exists:
                make_folder(folder, name, self._owner)
            with opened(folder, name, READ_FOLDER) as inner, lower.folder(name) as below:
                return self.write_folder(inner, below, watched)
        target = lower.target(name) if stat.S_ISLNK(entry.mode) else None
        make_special(folder, name, entry.mode, entry.mtime, target, self._owner)
        return None


def _entry(lower: LowerFolder, name: str) -> Entry:
    entry = lower.entry(name)
    if entry is None:
        raise FileNotFoundError(f"{name} is gone from the lower tree")
    return entry
