"""Archives: zip (wheels, eggs, jars, zipapps) and tar; compressed tar files come out of their compression first."""

from __future__ import annotations

import io
import tarfile
import zipfile
from typing import IO

from .container import Container, Parts


def _is_zip(name: str, data: bytes) -> bool:
    """Return whether the content is a zip file; zipped Python may start with a ``#!`` line."""
    return data.startswith((b"PK\x03\x04", b"PK\x05\x06")) or (data.startswith(b"#!") and b"PK\x03\x04" in data)


def _zip_parts(data: bytes, limit: int) -> Parts:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        yield "", "\n".join([*archive.namelist(), archive.comment.decode("latin-1")]).encode("utf-8", "replace")
        for info in archive.infolist():
            if not info.is_dir():
                with archive.open(info) as member:
                    yield info.filename, _bounded_read(member, limit)


def _tar_parts(data: bytes, limit: int) -> Parts:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if member.issym() or member.islnk():
                yield member.name, member.linkname.encode("utf-8", "replace")
            elif (source := archive.extractfile(member)) is not None:
                yield member.name, _bounded_read(source, limit)


def _bounded_read(source: IO[bytes], limit: int) -> bytes:
    """Return all bytes; the size that an archive's directory states may be wrong. Raises OverflowError."""
    content = source.read(limit + 1)
    if len(content) > limit:
        raise OverflowError
    return content


ZIP = Container("zip", _is_zip, _zip_parts)
TAR = Container("tar", lambda name, data: data[257:262] == b"ustar", _tar_parts)
FAILURES = (zipfile.BadZipFile, tarfile.TarError)
"""Errors of the readers, besides the built-in ones."""
