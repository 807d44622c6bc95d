"""One Snapshot as one file: a reproducible ``.tar.xz`` with which it can be played where no package index is."""

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
    """An archive of a Snapshot: ``sha256`` is of its bytes, ``digest`` of the recipe inside; ``size`` in bytes."""

    path: Path
    sha256: str
    digest: str
    size: int


def find_snapshot(digest: str, cache: Path | None = None) -> Snapshot:
    """The snapshot in the cache whose digest starts with ``digest``. Raises SnapshotError for none, or several."""
    home = cache_folder(cache)
    if not re.fullmatch(r"[0-9a-f]{6,64}", digest):
        raise SnapshotError(f"{digest!r} is neither a folder with tasks.jsonl nor a digest: give 6 to 64 hex digits")
    found = sorted(path.name for path in home.glob(f"snapshots/{digest}*"))
    if len(found) > 1:
        raise SnapshotError(f"{digest} begins {len(found)} digests in the cache: give more of its digits")
    loaded = snapshot.load(home, found[0]) if found else None
    if loaded is None:
        raise SnapshotError(f"no snapshot {digest} in the cache {home}: make it with `etude generate`, or unpack one")
    return loaded


def pack(source: Snapshot, target: Path) -> Packed:
    """Write the archive of ``source``, whole or not at all; ``target`` is a file, or a folder to name it by its sha256.

    The same bytes wherever and whenever the same recipe was built (``canonical`` says how, and what that cannot
    cover) by the same release of liblzma. Raises SnapshotError.
    """
    by_hash = target.is_dir()
    folder = target if by_hash else target.parent
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".pack-")
    except OSError as error:
        raise SnapshotError(f"cannot write to {folder}: {error.strerror}; name a folder that can be") from error
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
    """Owner, group, time and mode are the same for all: 0, 0, 0 and 644, or 755."""
    header = tarfile.TarInfo(member.name)
    header.mode = 0o755 if member.executable else 0o644
    header.size = len(member.data)
    if member.folder:
        header.type, header.mode = tarfile.DIRTYPE, 0o755
    elif member.link:
        header.type, header.linkname, header.mode = tarfile.SYMTYPE, member.link, 0o777
    return header
