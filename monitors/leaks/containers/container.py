"""The shape of a container, and bounded decompression with the decompressors of the standard library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Parts = Iterator[tuple[str, bytes]]
"""Inner names and their contents, made lazily."""


@dataclass(frozen=True)
class Container:
    """A kind of file that holds other bytes."""

    kind: str
    """Its name in leaks."""
    matches: Callable[[str, bytes], bool]
    """Returns whether a file of this name and content is one."""
    parts: Callable[[bytes, int], Parts]
    """Yields what a content holds. Raises OverflowError as soon as that is more than a number of bytes."""
    also_text: bool = False
    """Whether the bytes of the container itself are worth a search too."""
    verbatim: bool = False
    """Whether everything that it holds stands in its bytes as it is; what they do not hold is not in the parts."""


def bounded(decompressor: Any, data: bytes, limit: int) -> bytes:
    """Return what a ``zlib.decompressobj``-like object makes of ``data``. Raises OverflowError beyond ``limit``."""
    content = decompressor.decompress(data, limit + 1)
    if len(content) > limit:
        raise OverflowError
    return bytes(content)


def bounded_streams(make: Callable[[], Any], failure: type[Exception]) -> Callable[[bytes, int], Parts]:
    """Return the ``parts`` of a format with several streams in a row, each for a new decompressor that ``make`` makes.

    ``failure`` is what a decompressor raises for other bytes; after the first stream such bytes are padding.
    """

    def parts(data: bytes, limit: int) -> Parts:
        content = bytearray()
        while data:
            decompressor = make()
            try:
                content += bounded(decompressor, data, limit - len(content))
            except (failure, EOFError, ValueError):
                if not content:
                    raise
                break
            data = decompressor.unused_data
        yield "", bytes(content)

    return parts
