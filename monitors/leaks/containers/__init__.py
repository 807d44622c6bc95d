"""Containers: files that hold other bytes. One module per kind, as described by ``Container``."""

from __future__ import annotations

import importlib
import lzma
import sqlite3
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Protocol, cast

# In the order in which they are asked; the first that matches opens.
NAMES = (
    "gzip_file",
    "bzip2_file",
    "xz_file",
    "zstd_file",
    "zip_file",
    "tar_file",
    "git_pack",
    "sqlite_file",
    "pyc",
    "zlib_stream",
    "notebook",
    "html_page",
)

FAILURES = (
    zlib.error,
    lzma.LZMAError,
    struct.error,
    sqlite3.Error,
    tarfile.TarError,
    zipfile.BadZipFile,
    OSError,
    EOFError,
    ValueError,
    LookupError,
    NotImplementedError,
    RuntimeError,
)
"""Errors of the readers for content that is cut short, encrypted or of another kind."""


class Container(Protocol):
    """A module of this package; ``also_text`` says that its raw bytes are worth reading too."""

    kind: str
    also_text: bool

    def matches(self, name: str, data: bytes) -> bool: ...

    def parts(self, data: bytes, limit: int) -> Iterator[tuple[str, bytes]]:
        """Yield (inner name, content). Raises OverflowError as soon as the contents exceed ``limit`` bytes."""
        ...


@cache
def containers() -> tuple[Container, ...]:
    return tuple(cast(Container, importlib.import_module(f".{name}", __name__)) for name in NAMES)


def opener(name: str, data: bytes) -> Container | None:
    """Return the container that ``data`` is, by its content first and its name second; ``None`` for none."""
    return next((container for container in containers() if container.matches(name, data)), None)
