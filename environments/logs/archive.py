"""Zip archives of JSON files, as Inspect writes its ``.eval`` logs: members are read in memory, never extracted."""

from __future__ import annotations

import importlib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import LogError

MAX_MEMBER = 256 << 20
"""Bytes of one member after decompression."""
MAX_MEMBERS = 100_000
ZSTD = 93
"""Number of the compression method zstd in zip files."""
_DAMAGED: tuple[type[Exception], ...] = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, KeyError)


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip archive, from its content. Raises OSError."""
    with path.open("rb") as source:
        return source.read(4) == b"PK\x03\x04"


def archived_values(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of ``header.json`` and of each ``samples/*.json``. Raises LogError."""
    module, damaged = zipfile, _DAMAGED
    try:
        with zipfile.ZipFile(path) as archive:
            methods = {entry.compress_type for entry in archive.infolist()}
            names = [name for name in archive.namelist() if name == "header.json" or _is_sample(name)]
        if ZSTD in methods:
            module, damaged = _zstd_reader(path)
        with module.ZipFile(path) as archive:
            for name in sorted(names, key=lambda name: (name != "header.json", name))[:MAX_MEMBERS]:
                yield name, _content(archive, name, path)
    except NotImplementedError:
        raise LogError(f"{path} is compressed in an unknown way; write the log as JSON") from None
    except damaged as error:
        raise LogError(f"{path} is a damaged zip archive ({error}); write the log again") from None


def _is_sample(name: str) -> bool:
    return name.startswith("samples/") and name.endswith(".json")


def _content(archive: Any, name: str, path: Path) -> bytes:
    if archive.getinfo(name).file_size > MAX_MEMBER:
        raise LogError(f"{path}: {name} holds more than {MAX_MEMBER >> 20} MiB; split the log")
    with archive.open(name) as member:
        data: bytes = member.read(MAX_MEMBER + 1)
    return data


def _zstd_reader(path: Path) -> tuple[Any, tuple[type[Exception], ...]]:
    """Return a module like ``zipfile`` that knows zstd, and the errors of damaged archives. Raises LogError."""
    if hasattr(zipfile, "ZIP_ZSTANDARD"):  # since Python 3.14
        return zipfile, (*_DAMAGED, importlib.import_module("compression.zstd").ZstdError)
    try:
        zstd = importlib.import_module("backports.zstd")
        module = importlib.import_module("backports.zstd.zipfile")
    except ImportError:
        raise LogError(f"{path} is compressed with zstd: pip install backports.zstd") from None
    return module, (*_DAMAGED, module.BadZipFile, zstd.ZstdError)
