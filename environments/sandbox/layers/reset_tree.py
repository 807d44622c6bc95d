"""Resetting a copied tree to its lower tree by our own code, while nothing runs in it. Stdlib only, Python 3.8.

What was not touched since the last reset is neither opened nor read, so the cost depends on what a command used and
not on the size of the tree. What was touched is removed and written again. Hard links of the lower tree become files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable

from .lower import Entry, LowerFolder
from .touched import TreeWatch, Watched
from .tree_access import READ_FOLDER, lstat, opened, remove, remove_attributes

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def reset_tree(folder: int, lower: LowerFolder, watch: TreeWatch, owner: int | None) -> None:
    """Make an open folder equal to ``lower``; ``owner`` gets what is made (None: this user). Raises OSError.

    ``watch`` says what was touched, and watches the tree afterwards.
    """
    known = watch.collect()
    if known is None:
        watch.restart()
    watch.root = None  # until the tree is complete again
    _clear(folder, lower, known)
    watch.finish(_Layer(watch, owner).lay(folder, lower, known))


def _names(known: Watched | None, all_names: Callable[[], Iterable[str]]) -> list[str]:
    """Return the names to look at: ``all_names()``, or those with something touched where the folder itself was not."""
    if known is None or known.touched:
        return list(all_names())
    return [name for name, child in known.children.items() if child.below]


def _clear(folder: int, lower: LowerFolder, known: Watched | None) -> None:
    """Remove everything that may differ from the lower folder; folders that are in both stay.

    This is done in the whole tree before anything is written, since a full disk would leave no room.
    """
    os.fchmod(folder, 0o700)
    remove_attributes(folder)
    for name in _names(known, lambda: os.listdir(folder)):
        info = lstat(folder, name)
        child = known.child(name, info) if known is not None and info is not None else None
        if info is None or (child is not None and not child.below):
            continue
        entry = lower.entry(name)
        if stat.S_ISDIR(info.st_mode) and entry is not None and stat.S_ISDIR(entry.mode):
            os.chmod(name, 0o700, dir_fd=folder)
            with opened(folder, name, READ_FOLDER) as inner, lower.folder(name) as below:
                _clear(inner, below, child)
        else:
            remove(folder, name)


class _Layer:
    """Writes what is missing in a cleared tree."""

    def __init__(self, watch: TreeWatch, owner: int | None) -> None:
        self._watch = watch
        self._owner = owner

    def lay(self, folder: int, lower: LowerFolder, known: Watched | None) -> Watched:
        """Complete an open folder and watch it."""
        untouched = {} if known is None or known.touched else known.children
        children = {name: child for name, child in untouched.items() if not child.below}
        for name in _names(known, lower.names):
            info = lstat(folder, name)
            child = known.child(name, info) if known is not None and info is not None else None
            if child is None or child.below:
                child = self._lay_name(folder, lower, name, child, exists=info is not None)
            if child is not None:
                children[name] = child
        own = _entry(lower, ".")
        os.fchmod(folder, stat.S_IMODE(own.mode))
        os.utime(folder, ns=(own.mtime, own.mtime))
        if known is not None:
            known.parent = None  # reports on the old watch are about what was done here
        return self._watch.watch_folder(folder, children)

    def _lay_name(
        self, folder: int, lower: LowerFolder, name: str, known: Watched | None, *, exists: bool
    ) -> Watched | None:
        """Write one name; links and special files are watched by their folder alone."""
        entry = _entry(lower, name)
        if stat.S_ISREG(entry.mode):
            return self._lay_file(folder, lower, name, entry)
        if stat.S_ISDIR(entry.mode):
            if not exists:
                os.mkdir(name, 0o700, dir_fd=folder)
                self._give(folder, name)
            with opened(folder, name, READ_FOLDER) as inner, lower.folder(name) as below:
                return self.lay(inner, below, known)
        if stat.S_ISLNK(entry.mode):
            os.symlink(lower.target(name), os.fsencode(name), dir_fd=folder)
        else:
            os.mknod(name, entry.mode, dir_fd=folder)
            os.chmod(name, stat.S_IMODE(entry.mode), dir_fd=folder)
        os.utime(name, ns=(entry.mtime, entry.mtime), dir_fd=folder, follow_symlinks=False)
        self._give(folder, name)
        return None

    def _lay_file(self, folder: int, lower: LowerFolder, name: str, entry: Entry) -> Watched:
        file = os.open(name, _CREATE, 0o600, dir_fd=folder)
        try:
            lower.copy(name, file)
            if self._owner is not None:
                os.fchown(file, self._owner, self._owner)
            os.fchmod(file, stat.S_IMODE(entry.mode))
            os.utime(file, ns=(entry.mtime, entry.mtime))
            inode = os.fstat(file).st_ino
        finally:
            os.close(file)
        return self._watch.watch_file(folder, name, inode)

    def _give(self, folder: int, name: str) -> None:
        if self._owner is not None:
            os.chown(name, self._owner, self._owner, dir_fd=folder, follow_symlinks=False)


def _entry(lower: LowerFolder, name: str) -> Entry:
    entry = lower.entry(name)
    if entry is None:
        raise FileNotFoundError(f"{name} is gone from the lower tree")
    return entry
