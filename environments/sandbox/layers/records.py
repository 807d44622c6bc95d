"""Records of a tree in memory, and their form as bytes. Stdlib only, Python 3.8: the containers' worker uses it.

As bytes a tree is the contents of its files in any order, a description in JSON that says where each content is, and
the description's length. So a tree can be sent while it is read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    Content: TypeAlias = "bytes | memoryview | Sent"
    Node: TypeAlias = "File | Folder | Link | Special | Same"

_LENGTH = struct.Struct("<Q")


class File(NamedTuple):
    """A regular file. All names of a hard-linked file share one record."""

    mode: int
    mtime: int
    """Nanoseconds."""
    size: int
    linked: int
    """The inode number of a file with several names, else 0."""
    extents: Sequence[tuple[int, Content]]
    """Offsets and contents; holes are left out."""
    attributes: Mapping[str, bytes]


class Folder(NamedTuple):
    """A folder; ``opaque`` when it replaces the folder of an overlay's lower tree instead of being merged with it."""

    mode: int
    mtime: int
    opaque: bool
    attributes: Mapping[str, bytes]
    children: Mapping[str, Node]


class Link(NamedTuple):
    """A symbolic link."""

    mtime: int
    target: bytes


class Special(NamedTuple):
    """A FIFO, a socket or an overlay's mark of a deleted name; ``mode`` holds the kind."""

    mode: int
    mtime: int


class Same(NamedTuple):
    """Whatever the lower tree has under this name."""


SAME = Same()


class Sent:
    """A content that has been sent; only its place in the stream is known."""

    def __init__(self, place: int, length: int) -> None:
        self.place = place
        self.length = length

    def __len__(self) -> int:
        return self.length


class Sender:
    """Sends contents as they are read, then a description that refers to them."""

    def __init__(self, emit: Callable[[bytes], None]) -> None:
        self._emit = emit
        self._place = 0

    def keep(self, data: bytes) -> Sent:
        """Send a content and return its place."""
        self._emit(data)
        sent = Sent(self._place, len(data))
        self._place += len(data)
        return sent

    def finish(self, description: object) -> None:
        """Send the description, which ends the stream."""
        text = json.dumps(description).encode("ascii")
        self._emit(text + _LENGTH.pack(len(text)))


def description_in(data: bytes | memoryview) -> Any:
    """Return the description at the end of what a ``Sender`` sent."""
    view = memoryview(data)
    (length,) = _LENGTH.unpack(view[-_LENGTH.size :])
    return json.loads(bytes(view[-_LENGTH.size - length : -_LENGTH.size]))


def described(node: Node, linked: set[int]) -> list[object]:
    """Return the description of a tree whose contents were sent; ``linked`` collects its hard-linked files."""
    if isinstance(node, Folder):
        children = {name: described(child, linked) for name, child in node.children.items()}
        return ["folder", node.mode, node.mtime, _as_text(node.attributes), children]
    if isinstance(node, File):
        if node.linked in linked:
            return ["again", node.linked]
        if node.linked:
            linked.add(node.linked)
        places = [(offset, sent.place, sent.length) for offset, sent in node.extents if isinstance(sent, Sent)]
        return ["file", node.mode, node.mtime, node.size, node.linked, places, _as_text(node.attributes)]
    if isinstance(node, Link):
        return ["link", node.mtime, node.target.decode("latin-1")]
    if isinstance(node, Special):
        return ["special", node.mode, node.mtime]
    return ["same"]


def tree_in(data: bytes | memoryview) -> Folder:
    """Return the tree that was sent; its contents are views of ``data``."""
    tree = _node(description_in(data), memoryview(data), {})
    if not isinstance(tree, Folder):
        raise ValueError("the bytes do not describe a folder")
    return tree


def _node(description: list[Any], data: memoryview, linked: dict[int, File]) -> Node:
    kind, fields = description[0], description[1:]
    if kind == "folder":
        mode, mtime, attributes, children = fields
        nodes = {name: _node(child, data, linked) for name, child in children.items()}
        return Folder(mode, mtime, False, _as_bytes(attributes), nodes)
    if kind == "file":
        mode, mtime, size, number, places, attributes = fields
        extents = [(offset, data[place : place + length]) for offset, place, length in places]
        file = File(mode, mtime, size, number, extents, _as_bytes(attributes))
        if number:
            linked[number] = file
        return file
    if kind == "again":
        return linked[fields[0]]
    if kind == "link":
        return Link(fields[0], fields[1].encode("latin-1"))
    return Special(*fields) if kind == "special" else SAME


def _as_text(attributes: Mapping[str, bytes]) -> dict[str, str]:
    return {name: value.decode("latin-1") for name, value in attributes.items()}


def _as_bytes(attributes: Mapping[str, str]) -> dict[str, bytes]:
    return {name: value.encode("latin-1") for name, value in attributes.items()}
