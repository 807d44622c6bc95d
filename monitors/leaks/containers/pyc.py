"""Python bytecode: the strings of its code objects in order.

Read from the marshal format by hand: unmarshalling needs the same interpreter version and may crash on damage. Names,
constants and docstrings are strings in every version; the instructions are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

kind = "bytecode"
also_text = True

_SHORT = frozenset(b"zZ\xfa\xda")  # one byte of length
_LONG = frozenset(b"sutaA\xf3\xf5\xf4\xe1\xc1")  # four
MAX_STRING = 1 << 20


def matches(name: str, data: bytes) -> bool:
    return data[2:4] == b"\r\n" and len(data) > 16


def parts(data: bytes, limit: int) -> Iterator[tuple[str, bytes]]:
    strings: list[bytes] = []
    position = 12
    while position < len(data) - 2:
        size = 0
        if data[position] in _SHORT:
            start, size = position + 2, data[position + 1]
        elif data[position] in _LONG:
            start, size = position + 5, int.from_bytes(data[position + 1 : position + 5], "little")
        if 0 < size <= min(MAX_STRING, len(data) - start if size else 0) and _is_text(data[start : start + size]):
            strings.append(data[start : start + size])
            position = start + size
        else:
            position += 1
    yield "", b"\n".join(strings)


def _is_text(data: bytes) -> bool:
    return data.isascii() and all(byte >= 32 or byte in b"\t\n\r" for byte in data[:64])
