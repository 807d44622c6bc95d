"""Bounded decompression with the incremental decompressors of the standard library."""

from __future__ import annotations

from typing import Any

CHUNK = 1 << 20


def bounded(decompressor: Any, data: bytes, limit: int) -> bytes:
    """Return what an object like ``zlib.decompressobj`` gives. Raises OverflowError beyond ``limit`` bytes."""
    out = decompressor.decompress(data, limit + 1)
    if len(out) > limit:
        raise OverflowError
    return bytes(out)


def bounded_members(new_decompressor: Any, data: bytes, limit: int, failure: type[Exception] = OSError) -> bytes:
    """Return the same for formats that may hold several streams in a row, each read by a fresh decompressor.

    ``failure`` is what the decompressor raises for bytes that are not a stream, such as the padding after the last one.
    """
    inflated = bytearray()
    while data:
        decompressor = new_decompressor()
        try:
            inflated += bounded(decompressor, data, limit - len(inflated))
        except (failure, EOFError, ValueError) as error:
            if not inflated or isinstance(error, OverflowError):
                raise
            break  # padding after the last stream
        data = decompressor.unused_data
    return bytes(inflated)
