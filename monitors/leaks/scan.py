"""Scan of trees: every file and, within bounds, everything inside the containers in it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .containers import FAILURES, opener
from .needles import Needle, Needles
from .text import plain, read

MAX_DEPTH = 6
MAX_INFLATED = 256 << 20
"""Bytes that one file may unfold to, all levels together; a file that holds more is itself a Leak."""
MAX_PARTS = 200_000
EXCERPT = 200
_MACHINE_CODE = (b"\x7fELF", b"!<ar")


@dataclass(frozen=True)
class Leak:
    """A needle in a document: ``path`` has ``!inner`` for each container on the way, ``container`` is the innermost."""

    path: str
    container: str
    needle: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.path} ({self.container}) holds the {self.needle} {self.excerpt!r}"


@dataclass(frozen=True)
class Document:
    """One readable piece: its path, the container that holds it, its bytes."""

    path: str
    container: str
    data: bytes


@dataclass
class Budget:
    """The bytes and parts that one file may still unfold to."""

    bytes: int = MAX_INFLATED
    parts: int = MAX_PARTS

    def spend(self, size: int) -> bool:
        """Subtract one part of this size and return whether the bounds still hold."""
        self.bytes -= size
        self.parts -= 1
        return self.bytes >= 0 and self.parts >= 0


class TooLarge(Exception):
    """A file that unfolds beyond its bounds; the message is its path."""


@dataclass
class Visited:
    """Digests of contents that were read already, because git holds every file a second time."""

    digests: set[bytes] = field(default_factory=set)

    def again(self, data: bytes) -> bool:
        digest = hashlib.blake2b(data, digest_size=16).digest()
        is_repeated = digest in self.digests
        self.digests.add(digest)
        return is_repeated


def scan(roots: Mapping[str, Path], needles: Needles, *, most: int = 20) -> list[Leak]:
    """Return at most ``most`` leaks in trees (shown name to folder), in path order; symlinks are not followed."""
    leaks: list[Leak] = []
    visited = Visited()
    for shown, root in roots.items():
        for path, data in files(root):
            for leak in leaks_of(f"{shown}/{path}" if shown else path, data, needles, visited):
                leaks.append(leak)
                if len(leaks) >= most:
                    return leaks
    return leaks


def leaks_of(path: str, data: bytes, needles: Needles, visited: Visited | None = None) -> Iterator[Leak]:
    """Yield the leaks of one file, one per document and kind of needle; its name counts too."""
    yield from _bytecode(path, needles)
    try:
        for document in documents(path, data, visited or Visited()):
            if document.path != path:
                yield from _bytecode(document.path, needles)
            yield from _matches(document, needles)
    except TooLarge:
        yield Leak(path, "archive", "size", f"it unfolds to more than {MAX_INFLATED >> 20} MiB: not looked into")


def _matches(document: Document, needles: Needles) -> Iterator[Leak]:
    reported: set[str] = set()
    for needle in sorted(needles.within(read(document.data)), key=_strength):
        if needle.kind not in reported:
            reported.add(needle.kind)
            yield Leak(document.path, document.container, needle.kind, needle.text[:EXCERPT])


def _strength(needle: Needle) -> tuple[int, bytes]:
    return -len(needle.words), b" ".join(needle.words)


def _bytecode(path: str, needles: Needles) -> Iterator[Leak]:
    name = path.replace("!", "/").rsplit("/", 1)[-1]
    if name.endswith((".pyc", ".pyo")) and name.partition(".")[0] in needles.stems:
        yield Leak(path, "bytecode", "bytecode", name)


def documents(
    path: str, data: bytes, visited: Visited, budget: Budget | None = None, depth: int = 0
) -> Iterator[Document]:
    """Yield ``data`` itself and everything inside it. Raises TooLarge."""
    yield from _unfold(path, "text", data, visited, budget or Budget(), 0)


def _unfold(path: str, kind: str, data: bytes, visited: Visited, budget: Budget, depth: int) -> Iterator[Document]:
    if visited.again(data):
        return
    data = plain(data)
    container = opener(path, data)
    if container is None or container.also_text:
        yield Document(path, kind, data)
    if container is None:
        return
    if depth >= MAX_DEPTH:
        if container.also_text:
            return
        raise TooLarge(path)
    try:
        for name, part in container.parts(data, budget.bytes):
            if not budget.spend(len(part)):
                raise TooLarge(path)
            yield from _unfold(f"{path}!{name}" if name else path, container.kind, part, visited, budget, depth + 1)
    except OverflowError:
        raise TooLarge(path) from None
    except FAILURES:
        # Cut short, or not such a container after all: read its bytes as they are.
        if not container.also_text:
            yield Document(path, kind, data)


def files(root: Path, skip: Iterable[str] = (), *, machine_code: bool = True) -> Iterator[tuple[str, bytes]]:
    """Yield (path below ``root``, content) of every regular file in order, and the targets of symlinks as text.

    ``skip`` are folders (whole paths) to leave out; without ``machine_code`` object files and archives
    of them are left out too.
    """
    skipped = set(skip)
    for folder, names, file_names in os.walk(root):
        # Hidden folders last: what lies in the open is the better evidence.
        names[:] = sorted((n for n in names if os.path.join(folder, n) not in skipped), key=lambda n: (n[0] == ".", n))
        for name in sorted([*file_names, *(link for link in names if os.path.islink(os.path.join(folder, link)))]):
            full = os.path.join(folder, name)
            mode = os.lstat(full).st_mode
            relative = os.path.relpath(full, root)
            if stat.S_ISLNK(mode):
                yield relative, os.fsencode(os.readlink(full))
            elif stat.S_ISREG(mode):
                with Path(full).open("rb") as source:
                    head = source.read(4)
                    if machine_code or head not in _MACHINE_CODE:
                        yield relative, head + source.read()
