"""Containers: files that hold other bytes in a form that a search for words does not see.

``container`` says what a container is; ``compressed``, ``archives``, ``git_pack`` and ``documents`` hold the kinds.
"""

from __future__ import annotations

from .archives import TAR, ZIP
from .compressed import BZIP2, GZIP, XZ, ZLIB, ZSTD
from .container import Container
from .documents import BYTECODE, HTML, JSON, SQLITE
from .git_pack import GIT_PACK

CONTAINERS = (GZIP, BZIP2, XZ, ZSTD, ZIP, TAR, GIT_PACK, SQLITE, BYTECODE, ZLIB, JSON, HTML)
"""Every kind, in the order in which they are tried; the first one that matches opens a file."""


def container_of(name: str, data: bytes) -> Container | None:
    """Return the first kind of container that fits the content and, for some kinds, the name; None without one."""
    return next((container for container in CONTAINERS if container.matches(name, data)), None)
