"""Zstandard: in the standard library from Python 3.14 on, before that in its backport."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from .inflate import bounded_members

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

kind = "zstd"
also_text = False


def matches(name: str, data: bytes) -> bool:
    return data.startswith(b"\x28\xb5\x2f\xfd")


def parts(data: bytes, limit: int) -> Iterator[tuple[str, bytes]]:
    try:
        yield "", bounded_members(zstd.ZstdDecompressor, data, limit, zstd.ZstdError)
    except zstd.ZstdError as error:
        raise ValueError(str(error)) from error
