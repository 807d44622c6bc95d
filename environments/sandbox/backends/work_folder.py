"""The folder of one sandbox of the process backend: its copy of the workspace, and its ``/tmp``."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....errors import SandboxError
from ..kernel import linux
from ..layers.changes import ChangeLimits, find_changes
from ..layers.lower import disk_tree
from ..layers.records import Folder
from ..layers.reset_tree import reset_tree
from ..layers.restore_layer import restore_layer
from ..layers.save_layer import LayerFolder, SavedTree, save_layer
from ..layers.touched import TreeWatch
from ..layers.tree_access import opened_folders, wipe
from ..protocol import SANDBOX_UID, Change
from .keeper_sandbox import owner_of_layers

# Each watch is one inotify instance, of which a user has 128 by default; other sandboxes are reset as a whole.
_MOST_WATCHES = 32
_FOLDERS = ("workspace", "tmp")
_REMOVE = 'chmod -R u+rwX -- "$1" 2>/dev/null; exec rm -rf -- "$1"'

_watches: weakref.WeakSet[TreeWatch] = weakref.WeakSet()


class WorkFolder:
    """A folder that this process owns until it is removed."""

    def __init__(self, workspace: Path) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=linux.own_prefix())).resolve()
        self._workspace = workspace
        self._watch = TreeWatch(enabled=len(_watches) < _MOST_WATCHES)
        _watches.add(self._watch)
        self.path.chmod(0o711)
        for name in _FOLDERS:
            (self.path / name).mkdir()
            if os.geteuid() == 0:
                os.chown(self.path / name, SANDBOX_UID, SANDBOX_UID)

    @contextmanager
    def _opened(self, *, unlock: bool = False) -> Iterator[dict[str, int]]:
        """Open both folders; ``unlock`` changes their modes for good, where a command made them unreadable."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if unlock:
                for name in _FOLDERS:
                    os.chmod(name, 0o700, dir_fd=folder)
            with opened_folders(folder, _FOLDERS) as folders:
                yield folders
        finally:
            os.close(folder)

    def reset(self) -> None:
        """Make the copy equal to the lower tree and empty ``/tmp``. Raises SandboxError."""
        try:
            with self._opened(unlock=True) as folders, disk_tree(self._workspace) as lower:
                wipe(folders["tmp"])
                os.fchmod(folders["tmp"], 0o1777)
                reset_tree(folders["workspace"], lower, self._watch, owner_of_layers())
        except OSError as error:
            raise SandboxError(f"cannot copy {self._workspace}: {error}") from error

    def collect(self) -> None:
        """Take the kernel's reports, before there are too many."""
        self._watch.collect()

    def changes(self, limits: ChangeLimits) -> list[Change]:
        """Return what differs from the lower tree."""
        with self._opened() as folders, disk_tree(self._workspace) as lower:
            return find_changes(folders["workspace"], lower, limits, watched=self._watch.collect())

    def save(self, before: Folder | None, max_files: int, max_bytes: int) -> SavedTree:
        """Return the writable layer."""
        with self._opened() as folders, disk_tree(self._workspace) as lower:
            copy = LayerFolder(folders["workspace"], lower, self._watch.collect())
            trees = {"workspace": copy, "tmp": LayerFolder(folders["tmp"])}
            return save_layer(trees, before, max_files=max_files, max_bytes=max_bytes)

    def restore(self, tree: Folder) -> None:
        """Reset to a saved layer."""
        self.reset()
        with self._opened() as folders:
            restore_layer(folders, tree, owner_of_layers())

    def free_bytes(self) -> int:
        """Return the free space of the file system."""
        return shutil.disk_usage(self.path).free

    def usage(self) -> int:
        """Return the bytes that the files take on disk."""
        total = 0
        for parent, folders, files in os.walk(self.path):
            for name in [*folders, *files]:
                try:
                    total += os.lstat(os.path.join(parent, name)).st_blocks * 512
                except OSError:
                    continue
        return total

    def remove(self) -> None:
        """Remove everything."""
        self._watch.close()
        _watches.discard(self._watch)
        _remove(self.path)


def _remove(folder: Path) -> None:
    if os.path.lexists(folder):
        subprocess.run(["/bin/sh", "-c", _REMOVE, "sh", str(folder)], check=False, capture_output=True)


def cleanup() -> list[str]:
    """Remove this user's folders of processes that are gone, and return their paths."""
    removed = []
    for folder in Path(tempfile.gettempdir()).glob("etude-*-*-*"):
        try:
            if linux.maker_is_gone(folder.name) and folder.lstat().st_uid == os.geteuid():
                _remove(folder)
                removed.append(str(folder))
        except FileNotFoundError:
            continue  # another process was faster
    return removed
