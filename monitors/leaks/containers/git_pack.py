"""git packs: every object, reachable or not, deltas resolved (gitformat-pack(5))."""

from __future__ import annotations

import hashlib
import struct
import zlib

from .container import Container, Parts

_OFFSET_DELTA, _REFERENCE_DELTA = 6, 7
_CHUNK = 1 << 16
_TYPES = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_Objects = dict[int | bytes, tuple[int, bytes]]
"""Type and content of each object, by its offset and by its id."""


def _parts(data: bytes, limit: int) -> Parts:
    """Yield the objects in the order of the pack, named by their offsets; a delta whose base is missing as it is."""
    (count,) = struct.unpack(">I", data[8:12])
    objects: _Objects = {}
    waiting: list[tuple[int, bytes, bytes]] = []
    position, remaining = 12, limit
    for _ in range(count):
        start = position
        number, base, position = _header(data, start)
        body, position = _inflate(data, position, remaining)
        remaining -= len(body)
        if isinstance(base, bytes) and base not in objects:
            waiting.append((start, base, body))
            continue
        if base is not None:
            number, source = objects[base]
            body = _apply_delta(source, body, remaining)
            remaining -= len(body)
        _add(objects, start, number, body)
        yield f"{start}", body
    for start, base, body in waiting:
        if base in objects:
            number, source = objects[base]
            body = _apply_delta(source, body, limit)
            _add(objects, start, number, body)
        yield f"{start}", body


def _add(objects: _Objects, start: int, number: int, body: bytes) -> None:
    header = _TYPES.get(number, b"blob") + b" %d\0" % len(body)
    object_id = hashlib.sha1(header + body, usedforsecurity=False).digest()
    objects[start] = objects[object_id] = (number, body)


def _header(data: bytes, start: int) -> tuple[int, int | bytes | None, int]:
    """Return the type of the object at ``start``, the offset or id of its base, and where its stream starts."""
    number = data[start] >> 4 & 7
    _, position = _size(data, start)
    if number == _REFERENCE_DELTA:
        return number, data[position : position + 20], position + 20
    if number != _OFFSET_DELTA:
        return number, None, position
    distance = data[position] & 0x7F
    while data[position] & 0x80:
        position += 1
        distance = (distance + 1) << 7 | data[position] & 0x7F
    return number, start - distance, position + 1


def _size(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at ``position``, seven bits a byte, the lowest first, and the position after it."""
    size = shift = 0
    while data[position] & 0x80:
        size |= (data[position] & 0x7F) << shift
        shift, position = shift + 7, position + 1
    return size | data[position] << shift, position + 1


def _inflate(data: bytes, position: int, limit: int) -> tuple[bytes, int]:
    """Return one zlib stream and where it ends; in pieces, since what a decompressor does not use is copied."""
    decompressor = zlib.decompressobj()
    content = bytearray()
    while not decompressor.eof:
        piece = data[position : position + _CHUNK]
        if not piece:
            raise EOFError
        content += decompressor.decompress(piece, max(1, limit + 1 - len(content)))
        if len(content) > limit:
            raise OverflowError
        position += len(piece) - len(decompressor.unused_data) - len(decompressor.unconsumed_tail)
    return bytes(content), position


def _apply_delta(source: bytes, delta: bytes, limit: int) -> bytes:
    """Return what git's copy and insert instructions make of ``source``.

    Raises IndexError for a damaged delta, OverflowError beyond ``limit`` bytes.
    """
    _, position = _size(delta, 0)
    size, position = _size(delta, position)
    if size > limit:
        raise OverflowError
    content = bytearray()
    while position < len(delta):
        order, position = delta[position], position + 1
        if order & 0x80:
            fields = bytearray(7)  # four bytes of the offset, three of the size
            for index in range(7):
                if order >> index & 1:
                    fields[index], position = delta[position], position + 1
            offset, length = int.from_bytes(fields[:4], "little"), int.from_bytes(fields[4:], "little") or 0x10000
            content += source[offset : offset + length]
        else:
            content += delta[position : position + order]
            position += order
        if len(content) > limit:
            raise OverflowError
    return bytes(content)


GIT_PACK = Container(
    "git pack",
    lambda name, data: data.startswith(b"PACK") and data[4:8] in (b"\0\0\0\x02", b"\0\0\0\x03"),
    _parts,
)
