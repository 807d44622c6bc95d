"""Watches of a tree: the kernel (inotify) reports what a command may have touched, and a reset can skip the rest.

Stdlib only, Python 3.8: the containers' worker uses it. Every file and folder of the tree is watched by its inode,
since a second name (a hard link) would hide a write from its folder. A file counts as touched once it is opened,
however briefly and for whatever purpose: a write through a memory mapping is not reported. Each watch fires once. When
the kernel cannot report everything, everything counts as touched.
"""

from __future__ import annotations

import ctypes
import io
import os
import struct

_MODIFY, _ATTRIB, _OPEN = 0x2, 0x4, 0x20
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_DONT_FOLLOW, _ONESHOT = 0x2000000, 0x80000000
_OF_ITSELF = _ATTRIB | _DELETE_SELF | _MOVE_SELF | _DONT_FOLLOW | _ONESHOT
_FILE = _OF_ITSELF | _OPEN | _MODIFY
_FOLDER = _OF_ITSELF | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")
_EVENTS_BYTES = 1 << 16

_libc = ctypes.CDLL(None, use_errno=True)


class Watched:
    """A file or folder as it was when its watch began.

    ``touched`` says that it may have changed itself, ``below`` that it or something below it may have.
    """

    __slots__ = ("below", "children", "inode", "parent", "touched")

    def __init__(self, inode: int, children: dict[str, Watched]) -> None:
        self.inode = inode
        self.parent: Watched | None = None
        self.touched = False
        self.replace_children(children)

    def replace_children(self, children: dict[str, Watched]) -> None:
        """Take over children that are as they should be."""
        self.children = children
        self.below = False
        for child in children.values():
            child.parent = self

    def touch(self) -> None:
        """Record that this may have changed."""
        self.touched = True
        node: Watched | None = self
        while node is not None and not node.below:
            node.below = True
            node = node.parent

    def child(self, name: str, info: os.stat_result) -> Watched | None:
        """Return what is known about a name, given its status; None when another inode has the name now."""
        child = self.children.get(name)
        return child if child is not None and child.inode == info.st_ino else None


class TreeWatch:
    """The watches of one tree. ``root`` is the tree as it was written; None when nothing is known about it."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.root: Watched | None = None
        self._enabled = enabled
        self._nodes: dict[int, Watched] = {}
        self._events: io.FileIO | None = None

    def restart(self) -> None:
        """Forget everything, before a tree is written from nothing."""
        self.close()
        if self._enabled:
            events = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            self._events = io.FileIO(events, "rb") if events >= 0 else None

    def close(self) -> None:
        """Stop watching; idempotent."""
        self.root = None
        self._nodes.clear()
        if self._events is not None:
            self._events.close()
            self._events = None

    def watch_file(self, folder: int, name: str, inode: int) -> Watched:
        """Watch a file from now on."""
        return self._add(f"/proc/self/fd/{folder}/{name}", _FILE, Watched(inode, {}))

    def watch_folder(self, folder: int, children: dict[str, Watched]) -> Watched:
        """Watch an open folder from now on."""
        return self._add(f"/proc/self/fd/{folder}/.", _FOLDER, Watched(os.fstat(folder).st_ino, children))

    def _add(self, path: str, events: int, node: Watched) -> Watched:
        if self._events is not None:
            number = _libc.inotify_add_watch(self._events.fileno(), os.fsencode(path), ctypes.c_uint32(events))
            if number >= 0:
                self._nodes[number] = node
            else:  # this user may have no more watches
                self.close()
        return node

    def finish(self, root: Watched) -> None:
        """Accept a written tree, if all of it is watched."""
        self.root = root if self._events is not None else None

    def collect(self) -> Watched | None:
        """Record what the kernel has reported since the last call; return ``root``."""
        while self._events is not None:
            data = self._events.read(_EVENTS_BYTES)
            if not data:
                break
            place = 0
            while place < len(data):
                number, events, _, length = _EVENT.unpack_from(data, place)
                place += _EVENT.size + length
                node = self._nodes.pop(number, None)
                if node is not None:
                    node.touch()
                if events & _OVERFLOW:
                    self.close()
        return self.root
