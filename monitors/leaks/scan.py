"""Search of whole trees: every file, and everything inside containers, as deep as it goes within bounds."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .containers import archives, compressed, container_of, documents
from .needles import Needle, Needles
from .text import narrow, read

MAX_DEPTH = 6
MAX_INFLATED = 256 << 20
"""Bytes that one file may unpack to, all levels together; a file that holds more is itself a Leak."""
MAX_PARTS = 200_000
EXCERPT = 200
_MACHINE_CODE = (b"\x7fELF", b"!<ar")
_FAILURES = (
    *(*compressed.FAILURES, *archives.FAILURES, *documents.FAILURES),
    *(OSError, EOFError, ValueError, LookupError, NotImplementedError, RuntimeError),
)
"""Errors of the readers for content that is cut short, encrypted, or not the container that it looks like."""


@dataclass(frozen=True)
class Leak:
    """A place that gives removed code away."""

    path: str
    """Its path below its root, with ``!inner`` for each container on the way."""
    container: str
    """The kind of the innermost container."""
    needle: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.path} ({self.container}) holds the {self.needle} {self.excerpt!r}"


@dataclass(frozen=True)
class Document:
    """One readable piece of a file."""

    path: str
    """Where it lies, as in a Leak."""
    container: str
    data: bytes
    digest: bytes = b""
    """A digest of the data before it was narrowed."""


class TooLarge(Exception):
    """Raised for a file that unpacks beyond its bounds; the message is its path."""


def scan(roots: Mapping[str, Path], needles: Needles, *, most: int = 20) -> list[Leak]:
    """Return at most ``most`` leaks in whole trees (shown name to folder), in the order of their paths.

    Symbolic links are not followed; their targets are searched as text.
    """
    leaks: list[Leak] = []
    digests: set[bytes] = set()
    for shown, root in roots.items():
        for path, data in files(root):
            for leak in _leaks(f"{shown}/{path}" if shown else path, data, needles, digests):
                leaks.append(leak)
                if len(leaks) >= most:
                    return leaks
    return leaks


def _leaks(path: str, data: bytes, needles: Needles, digests: set[bytes]) -> Iterator[Leak]:
    """Yield the leaks of one file, one for each document and kind of needle. Its name counts too."""
    yield from _bytecode(path, needles)
    try:
        for document in unfolded(path, data, digests, needles):
            if document.path != path:
                yield from _bytecode(document.path, needles)
            yield from _matches(document, needles)
    except TooLarge:
        yield Leak(path, "archive", "size", f"it unpacks to more than {MAX_INFLATED >> 20} MiB and is not searched")


def _matches(document: Document, needles: Needles) -> Iterator[Leak]:
    """Yield a leak for the strongest needle of each kind."""
    text = read.known(document.digest)
    if text is None:
        # Most documents hold no needle: their words are looked up without a vocabulary, which takes longer to build.
        if not read.is_repeated(document.digest) and not needles.may_be_in(document.data):
            return
        text = read(document.data, document.digest)
    strongest: dict[str, Needle] = {}
    for needle in sorted(needles.within(text), key=lambda needle: (-len(needle.words), needle.text)):
        strongest.setdefault(needle.kind, needle)
    for kind, needle in strongest.items():
        yield Leak(document.path, document.container, kind, needle.text[:EXCERPT])


def _bytecode(path: str, needles: Needles) -> Iterator[Leak]:
    name = path.replace("!", "/").rsplit("/", 1)[-1]
    if name.endswith((".pyc", ".pyo")) and name.partition(".")[0] in needles.stems:
        yield Leak(path, "bytecode", "bytecode", name)


def unfolded(path: str, data: bytes, digests: set[bytes], needles: Needles | None = None) -> Iterator[Document]:
    """Yield a file and everything inside it. Raises TooLarge.

    With ``needles``, parts that stand in a container's bytes as they are, are left out where the bytes hold no needle.
    ``digests`` are those of the contents that were searched already, and grows: git holds every file a second time.
    """
    yield from _Unfolding(digests, needles).documents(path, "text", data, 0)


@dataclass
class _Unfolding:
    """The unpacking of one file, with what remains of its bounds."""

    digests: set[bytes]
    needles: Needles | None = None
    remaining_bytes: int = MAX_INFLATED
    remaining_parts: int = MAX_PARTS

    def documents(self, path: str, kind: str, data: bytes, depth: int) -> Iterator[Document]:
        digest = hashlib.blake2b(data, digest_size=16).digest()
        if digest in self.digests:
            return
        self.digests.add(digest)
        data = narrow(data)
        container = container_of(path, data)
        if container is None or container.also_text:
            yield Document(path, kind, data, digest)
        if container is None or (depth >= MAX_DEPTH and container.also_text):
            return
        sought = self.needles
        if container.verbatim and sought is not None and sought.are_few and not sought.stand_in(data):
            return
        if depth >= MAX_DEPTH:
            raise TooLarge(path)
        try:
            for name, part in container.parts(data, self.remaining_bytes):
                self.remaining_bytes -= len(part)
                self.remaining_parts -= 1
                if self.remaining_bytes < 0 or self.remaining_parts < 0:
                    raise TooLarge(path)
                yield from self.documents(f"{path}!{name}" if name else path, container.kind, part, depth + 1)
        except OverflowError:
            raise TooLarge(path) from None
        except _FAILURES:  # cut short, or it only looks like a container: its bytes as they are
            if not container.also_text:
                yield Document(path, kind, data, digest)


def files(root: Path, skip: Iterable[str] = (), *, machine_code: bool = True) -> Iterator[tuple[str, bytes]]:
    """Yield path below ``root`` and content of every regular file, and of symbolic links their targets; sorted.

    ``skip`` are folders (whole paths) to leave out; without ``machine_code`` object files and archives of them are
    left out too.
    """
    skipped = set(skip)
    prefix = len(str(root)) + 1
    for folder, names, entries in os.walk(root):
        # Hidden folders last: what lies in the open is the better evidence.
        names[:] = sorted((n for n in names if os.path.join(folder, n) not in skipped), key=lambda n: (n[0] == ".", n))
        for name in sorted([*entries, *(name for name in names if os.path.islink(os.path.join(folder, name)))]):
            full = f"{folder}/{name}"
            status = os.lstat(full)
            relative = full[prefix:]
            if stat.S_ISLNK(status.st_mode):
                yield relative, os.fsencode(os.readlink(full))
            elif stat.S_ISREG(status.st_mode):
                data = _content(full, status.st_size, machine_code)
                if data is not None:
                    yield relative, data


def _content(path: str, size: int, machine_code: bool) -> bytes | None:
    """Return a file's bytes in as few system calls as possible; None for machine code that is not asked for."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        data = os.read(descriptor, 4 if not machine_code else size + 1)
        if not machine_code and data in _MACHINE_CODE:
            return None
        if machine_code and len(data) == size:
            return data
        pieces = [data]
        while data:
            data = os.read(descriptor, max(1 << 16, size))
            pieces.append(data)
        return b"".join(pieces)
    finally:
        os.close(descriptor)
