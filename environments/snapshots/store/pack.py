"""Packing of a Snapshot into a reproducible ``.tar.xz``, with which it can be used without a package index."""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import re
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ....errors import SnapshotError
from .. import snapshot
from ..snapshot import Snapshot
from .cache import cache_folder
from .deterministic_archive import Member, members

SUFFIX = ".tar.xz"
_PRESET = 6


@dataclass(frozen=True)
class Packed:
    """Archive of a Snapshot: ``sha256`` of its bytes, ``digest`` of the recipe inside, ``size`` in bytes."""

    path: Path
    sha256: str
    digest: str
    size: int


def find_snapshot(digest: str, cache: Path | None = None) -> Snapshot:
    """Return the snapshot in the cache whose digest starts with ``digest``.

    Raises SnapshotError for none, and for several.
    """
    home = cache_folder(cache)
    if not re.fullmatch(r"[0-9a-f]{6,64}", digest):
        raise SnapshotError(f"{digest!r} is neither a folder with tasks.jsonl nor a digest; give 6 to 64 hex digits")
    matches = sorted(path.name for path in home.glob(f"snapshots/{digest}*"))
    if len(matches) > 1:
        raise SnapshotError(f"{digest} matches {len(matches)} snapshots in the cache; give more of its digits")
    loaded = snapshot.load(home, matches[0]) if matches else None
    if loaded is None:
        raise SnapshotError(f"no snapshot {digest} in the cache {home}; make it with `etude generate`, or unpack one")
    return loaded


def pack(source: Snapshot, target: Path) -> Packed:
    """Write the archive of ``source`` atomically; ``target`` is a file, or a folder to name the file by its sha256.

    The bytes are the same wherever the same recipe was built (see ``deterministic_archive`` for the exceptions), given
    the same release of liblzma. Raises SnapshotError.
    """
    by_hash = target.is_dir()
    folder = target if by_hash else target.parent
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".pack-")
    except OSError as error:
        raise SnapshotError(f"cannot write to {folder} ({error.strerror}); name a folder that you may write") from error
    try:
        with os.fdopen(handle, "w+b") as file:
            _compress(source, file)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        path = target / f"{sha256}{SUFFIX}" if by_hash else target
        size = Path(name).stat().st_size
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
    return Packed(path, sha256, source.digest, size)


def _compress(source: Snapshot, file: IO[bytes]) -> None:
    with (
        lzma.LZMAFile(file, "wb", format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=_PRESET) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for member in members(source):
            tar.addfile(_header(member), io.BytesIO(member.data))


def _header(member: Member) -> tarfile.TarInfo:
    """Return a header with owner, group and time 0, and mode 644, or 755 for programs and folders."""
    header = tarfile.TarInfo(member.name)
    header.mode = 0o755 if member.executable else 0o644
    header.size = len(member.data)
    if member.folder:
        header.type, header.mode = tarfile.DIRTYPE, 0o755
    elif member.link:
        header.type, header.linkname, header.mode = tarfile.SYMTYPE, member.link, 0o777
    return header
