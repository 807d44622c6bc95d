"""Restoring a saved writable layer while nothing runs in it. Stdlib only, Python 3.8."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from .lower import write_file
from .records import File, Folder, Link, Same
from .tree_access import READ_FOLDER, created, make_folder, make_special, opaque_mark, opened, remove, remove_attributes

if TYPE_CHECKING:
    from .records import Node


def restore_layer(folders: Mapping[str, int], tree: Folder, owner: int | None) -> None:
    """Make open folders, which are empty or equal to their lower trees, what they were when ``tree`` was saved.

    ``owner`` gets what is made (None: this user). Raises OSError.
    """
    for name, folder in folders.items():
        node = tree.children[name]
        if isinstance(node, Folder):
            _Restore(folder, owner).fill(folder, node)


class _Restore:
    """Fills one folder; a hard-linked file is made in a temporary folder beside its names."""

    def __init__(self, root: int, owner: int | None) -> None:
        self._root = root
        self._owner = owner
        self._staging = f".staging-{os.urandom(8).hex()}"
        self._linked: set[int] = set()

    def fill(self, folder: int, node: Folder) -> None:
        """Make an open folder what the record says."""
        os.fchmod(folder, 0o700)
        remove_attributes(folder)
        present = set(os.listdir(folder)) - {self._staging}
        for name in present - node.children.keys():
            remove(folder, name)
        for name, child in node.children.items():
            self._fill_name(folder, name, child, present)
        if folder == self._root and self._linked:
            remove(folder, self._staging)
        for key, value in node.attributes.items():
            os.setxattr(folder, key, value)
        if node.opaque:
            os.setxattr(folder, opaque_mark(), b"y")
        os.fchmod(folder, node.mode)
        os.utime(folder, ns=(node.mtime, node.mtime))

    def _fill_name(self, folder: int, name: str, node: Node, present: Collection[str]) -> None:
        if isinstance(node, Same):
            return
        if name in present:
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            if isinstance(node, Folder) and is_folder:
                os.chmod(name, 0o700, dir_fd=folder)
                self._fill_folder(folder, name, node)
                return
            remove(folder, name)
        if isinstance(node, File):
            self._make_file(folder, name, node)
        elif isinstance(node, Folder):
            make_folder(folder, name, self._owner)
            self._fill_folder(folder, name, node)
        elif isinstance(node, Link):
            make_special(folder, name, stat.S_IFLNK, node.mtime, node.target, self._owner)
        else:
            make_special(folder, name, node.mode, node.mtime, None, self._owner)

    def _fill_folder(self, folder: int, name: str, node: Folder) -> None:
        with opened(folder, name, READ_FOLDER) as inner:
            self.fill(inner, node)

    def _make_file(self, folder: int, name: str, node: File) -> None:
        if not node.linked:
            self._write_file(folder, name, node)
            return
        if not self._linked:
            os.mkdir(self._staging, 0o700, dir_fd=self._root)
        with opened(self._root, self._staging, READ_FOLDER) as staging:
            if node.linked not in self._linked:
                self._linked.add(node.linked)
                self._write_file(staging, str(node.linked), node)
            os.link(str(node.linked), name, src_dir_fd=staging, dst_dir_fd=folder, follow_symlinks=False)

    def _write_file(self, folder: int, name: str, node: File) -> None:
        with created(folder, name, node.mode, node.mtime, self._owner) as file:
            write_file(file, node)
            for key, value in node.attributes.items():
                os.setxattr(file, key, value)
