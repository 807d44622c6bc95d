"""Java class files, written by hand (The Java Virtual Machine Specification, chapter 4)."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence

_UTF8, _CLASS, _STRING = 1, 7, 8
_PUBLIC_ABSTRACT, _INTERFACE = 0x0401, 0x0601


def class_file(name: str, methods: Mapping[str, str], texts: Sequence[str] = ()) -> bytes:
    """Return the bytes of a public interface: its ``methods`` by name with their descriptors, and string constants."""
    pool: list[bytes] = []

    def entry(data: bytes) -> int:
        if data not in pool:
            pool.append(data)
        return pool.index(data) + 1

    def text(value: str) -> int:
        encoded = value.encode()
        return entry(struct.pack(">BH", _UTF8, len(encoded)) + encoded)

    this = entry(struct.pack(">BH", _CLASS, text(name)))
    parent = entry(struct.pack(">BH", _CLASS, text("java/lang/Object")))
    for value in texts:
        entry(struct.pack(">BH", _STRING, text(value)))
    table = b"".join(
        struct.pack(">HHHH", _PUBLIC_ABSTRACT, text(method), text(descriptor), 0)
        for method, descriptor in methods.items()
    )
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 52, len(pool) + 1) + b"".join(pool)
    return head + struct.pack(">HHHHHH", _INTERFACE, this, parent, 0, 0, len(methods)) + table + struct.pack(">H", 0)


def jar(classes: Mapping[str, bytes]) -> bytes:
    """Return an archive of class files, by path, with a manifest."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), "Manifest-Version: 1.0\n")
        for path, content in classes.items():
            archive.writestr(zipfile.ZipInfo(path), content, zipfile.ZIP_DEFLATED)
    return data.getvalue()
