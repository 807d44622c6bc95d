"""Bounded decompression with the incremental decompressors of the standard library."""

from __future__ import annotations

from typing import Any

CHUNK = 1 << 20


def bounded(decompressor: Any, data: bytes, limit: int) -> bytes:
    """All that a ``zlib.decompressobj``-like object gives. Raises OverflowError beyond ``limit`` bytes."""
    out = decompressor.decompress(data, limit + 1)
    if len(out) > limit:
        raise OverflowError
    return bytes(out)


def bounded_members(make: Any, data: bytes, limit: int, failure: type[Exception] = OSError) -> bytes:
    """The same for formats that may hold several streams in a row, each read by a fresh decompressor.

    ``failure`` is what the decompressor raises for bytes that are no stream: padding, after the first.
    """
    found = bytearray()
    while data:
        decompressor = make()
        try:
            found += bounded(decompressor, data, limit - len(found))
        except (failure, EOFError, ValueError) as error:
            if not found or isinstance(error, OverflowError):
                raise
            break  # padding after the last stream
        data = decompressor.unused_data
    return bytes(found)
