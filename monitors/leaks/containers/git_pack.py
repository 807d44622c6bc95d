"""Git packs: every object, reachable or not, with deltas resolved."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

kind = "git pack"
also_text = False

_OFFSET_DELTA, _REFERENCE_DELTA = 6, 7
_CHUNK = 1 << 16
_KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}


def matches(name: str, data: bytes) -> bool:
    return data.startswith(b"PACK") and data[4:8] in (b"\0\0\0\x02", b"\0\0\0\x03")


def parts(data: bytes, limit: int) -> Iterator[tuple[str, bytes]]:
    """Yield the objects in the order of the pack, named by their offsets; a delta without its base stays a delta."""
    (count,) = struct.unpack(">I", data[8:12])
    by_offset: dict[int, tuple[int, bytes]] = {}
    by_id: dict[bytes, tuple[int, bytes]] = {}
    waiting: list[tuple[int, bytes, bytes]] = []
    position, remaining = 12, limit
    for _ in range(count):
        start = position
        number, base, position = _header(data, start)
        body, position = _inflate(data, position, remaining)
        remaining -= len(body)
        if isinstance(base, bytes) and base not in by_id:
            waiting.append((start, base, body))
            continue
        if base is not None:
            number, source = by_id[base] if isinstance(base, bytes) else by_offset[base]
            body = apply_delta(source, body, remaining)
            remaining -= len(body)
        _keep(start, number, body, by_offset, by_id)
        yield f"{start}", body
    for start, base, body in waiting:
        if base in by_id:
            number, source = by_id[base]
            body = apply_delta(source, body, limit)
            _keep(start, number, body, by_offset, by_id)
        yield f"{start}", body


def _keep(
    start: int, number: int, body: bytes, by_offset: dict[int, tuple[int, bytes]], by_id: dict[bytes, tuple[int, bytes]]
) -> None:
    import hashlib

    header = _KINDS.get(number, b"blob") + b" %d\0" % len(body)
    by_offset[start] = by_id[hashlib.sha1(header + body, usedforsecurity=False).digest()] = (number, body)


def _header(data: bytes, position: int) -> tuple[int, int | bytes | None, int]:
    """Return the type, the base (offset, id or ``None``), and the position where the stream starts."""
    start = position
    byte = data[position]
    position += 1
    number = byte >> 4 & 7
    while byte & 0x80:
        byte = data[position]
        position += 1
    if number == _OFFSET_DELTA:
        byte = data[position]
        position += 1
        distance = byte & 0x7F
        while byte & 0x80:
            byte = data[position]
            position += 1
            distance = (distance + 1) << 7 | byte & 0x7F
        return number, start - distance, position
    if number == _REFERENCE_DELTA:
        return number, data[position : position + 20], position + 20
    return number, None, position


def _inflate(data: bytes, position: int, limit: int) -> tuple[bytes, int]:
    """Return one zlib stream and the position of the next object; read in pieces, because unused input is copied."""
    decompressor = zlib.decompressobj()
    inflated = bytearray()
    while not decompressor.eof:
        piece = data[position : position + _CHUNK]
        if not piece:
            raise EOFError
        inflated += decompressor.decompress(piece, max(1, limit + 1 - len(inflated)))
        if len(inflated) > limit:
            raise OverflowError
        position += len(piece) - len(decompressor.unused_data) - len(decompressor.unconsumed_tail)
    return bytes(inflated), position


def apply_delta(source: bytes, delta: bytes, limit: int) -> bytes:
    """Apply git's copy and insert instructions. Raises IndexError or OverflowError for a damaged delta."""
    position = 0
    sizes = []
    for _ in range(2):
        size = shift = 0
        while True:
            byte = delta[position]
            position += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        sizes.append(size)
    if sizes[1] > limit:
        raise OverflowError
    out = bytearray()
    while position < len(delta):
        order = delta[position]
        position += 1
        if order & 0x80:
            offset = size = 0
            for index in range(7):
                if order >> index & 1:
                    if index < 4:
                        offset |= delta[position] << 8 * index
                    else:
                        size |= delta[position] << 8 * (index - 4)
                    position += 1
            out += source[offset : offset + (size or 0x10000)]
        else:
            out += delta[position : position + order]
            position += order
        if len(out) > limit:
            raise OverflowError
    return bytes(out)
