"""Compressed files: gzip, bzip2, xz, Zstandard, and bare zlib streams."""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib

from .container import Container, Parts, bounded, bounded_streams

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_XZ_MEMORY = 256 << 20
_INVENTORY = b"# Sphinx inventory version 2"


def _is_bzip2(name: str, data: bytes) -> bool:
    return data.startswith(b"BZh") and data[4:10] in (b"1AY&SY", b"\x17rE8P\x90")


def _is_xz(name: str, data: bytes) -> bool:
    return data.startswith(b"\xfd7zXZ\0") or (name.endswith(".lzma") and data.startswith(b"]\0\0"))


def _is_zlib(name: str, data: bytes) -> bool:
    if data.startswith(_INVENTORY):
        return True
    return len(data) > 2 and data[0] == 0x78 and (data[0] << 8 | data[1]) % 31 == 0


def _zlib_parts(data: bytes, limit: int) -> Parts:
    """Yield the content of a loose git object, of Sphinx's ``objects.inv`` or of another zlib stream."""
    if data.startswith(_INVENTORY):
        data = data.split(b"\n", 4)[4]
    content = bounded(zlib.decompressobj(), data, limit)
    header, nul, body = content.partition(b"\0")
    # A git object's header would make its body differ from the file it is a copy of.
    is_object = nul and header.split(b" ")[0] in (b"blob", b"tree", b"commit", b"tag")
    yield "", body if is_object else content


GZIP = Container(
    "gzip",
    lambda name, data: data.startswith(b"\x1f\x8b\x08"),
    bounded_streams(lambda: zlib.decompressobj(wbits=31), zlib.error),
)
BZIP2 = Container("bzip2", _is_bzip2, bounded_streams(bz2.BZ2Decompressor, OSError))
XZ = Container("xz", _is_xz, bounded_streams(lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY), lzma.LZMAError))
ZSTD = Container(
    "zstd",
    lambda name, data: data.startswith(b"\x28\xb5\x2f\xfd"),
    bounded_streams(zstd.ZstdDecompressor, zstd.ZstdError),
)
ZLIB = Container("zlib", _is_zlib, _zlib_parts)

FAILURES = (zlib.error, lzma.LZMAError, zstd.ZstdError)
"""Errors of the decompressors, besides the built-in ones."""
