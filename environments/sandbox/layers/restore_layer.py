"""Laying a kept layer down again, in folders that no overlay is mounted over yet, by our own code."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection
from dataclasses import dataclass, field

from .. import SANDBOX_UID
from .changes import READ, opaque_mark, opened
from .save_layer import File, Folder, Link, Node

_STAGED = "links"


def fill(layer: int, tree: Folder, owner: int | None) -> None:
    """Make the folders below ``layer`` (there, and empty or a copy of the lower tree) what they were in ``tree``.

    ``owner`` gets all that is made (None: this user). Raises OSError.
    """
    os.mkdir(_STAGED, 0o700, dir_fd=layer)
    staged = os.open(_STAGED, READ | os.O_DIRECTORY, dir_fd=layer)
    try:
        work = _Fill(staged, owner)
        for name, node in tree.children.items():
            if isinstance(node, Folder):
                _fill_folder(work, layer, name, node)
    finally:
        os.close(staged)
        shutil.rmtree(_STAGED, dir_fd=layer)


@dataclass
class _Fill:
    """``staged``: an open folder beside the tree, where a hard link's file is made before its names are."""

    staged: int
    owner: int | None
    linked: set[int] = field(default_factory=set)


def _fill_folder(work: _Fill, parent: int, name: str, node: Folder) -> None:
    with opened(parent, name, READ | os.O_DIRECTORY) as folder:
        os.fchmod(folder, 0o700)
        present = set(os.listdir(folder))
        for old in present - node.children.keys():
            _remove(folder, old)
        for child, inner in node.children.items():
            _fill_entry(work, folder, child, inner, present)
        for key, value in node.attributes.items():
            os.setxattr(folder, key, value)
        if node.opaque:
            os.setxattr(folder, opaque_mark(), b"y")
        os.fchmod(folder, node.mode)
        os.utime(folder, ns=(node.mtime, node.mtime))


def _fill_entry(work: _Fill, folder: int, name: str, node: Node, present: Collection[str]) -> None:
    if isinstance(node, File) and node.extents is None:
        return
    if name in present:
        if isinstance(node, Folder) and stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            _fill_folder(work, folder, name, node)
            return
        _remove(folder, name)
    if isinstance(node, File):
        _fill_file(work, folder, name, node)
        return
    if isinstance(node, Folder):
        os.mkdir(name, 0o700, dir_fd=folder)
    elif isinstance(node, Link):
        os.symlink(node.target, os.fsencode(name), dir_fd=folder)
    else:
        os.mknod(name, node.mode, dir_fd=folder)
        if not stat.S_ISCHR(node.mode):  # nobody sees a whiteout
            os.chmod(name, stat.S_IMODE(node.mode), dir_fd=folder)
    if work.owner is not None:
        os.chown(name, work.owner, work.owner, dir_fd=folder, follow_symlinks=False)
    if isinstance(node, Folder):
        _fill_folder(work, folder, name, node)
        return
    os.utime(name, ns=(node.mtime, node.mtime), dir_fd=folder, follow_symlinks=False)


def _fill_file(work: _Fill, folder: int, name: str, node: File) -> None:
    if not node.linked:
        _make_file(work, folder, name, node)
        return
    if node.linked not in work.linked:
        work.linked.add(node.linked)
        _make_file(work, work.staged, str(node.linked), node)
    os.link(str(node.linked), name, src_dir_fd=work.staged, dst_dir_fd=folder, follow_symlinks=False)


def _make_file(work: _Fill, folder: int, name: str, node: File) -> None:
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        for offset, data in node.extents or ():
            rest = memoryview(data)
            while rest:
                written = os.pwrite(file, rest, offset)
                offset, rest = offset + written, rest[written:]
        os.ftruncate(file, node.size)
        for key, value in node.attributes.items():
            os.setxattr(file, key, value)
        if work.owner is not None:
            os.fchown(file, work.owner, work.owner)
        os.fchmod(file, node.mode)
        os.utime(file, ns=(node.mtime, node.mtime))
    finally:
        os.close(file)


def _remove(folder: int, name: str) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def owner_of_layers() -> int | None:
    """Who owns what a sandbox writes, when that is not this user."""
    return SANDBOX_UID if os.geteuid() == 0 else None
