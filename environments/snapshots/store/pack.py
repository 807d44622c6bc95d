"""Packing of a Snapshot into a reproducible ``.tar.xz``, with which it can be used without a package index.

Two builds of one recipe differ in the parts that record where, when and how fast they were made:

- excluded, and made again on unpacking: bytecode, the interpreter's links, ``pyvenv.cfg``, the copy for backends
  without mounts, the interpreter's path;
- rewritten: ``RECORD``, which has hashes of scripts that contained the build's folder;
- excluded for good: the baseline's notes and dropped tests.

Two differences are not covered: a dependency that is compiled on this machine by a build that is not reproducible, and
a flaky test that passes in all runs of one baseline and not of the other.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import platform
import posixpath
import re
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ....errors import SnapshotError
from .. import snapshot
from ..recipe import Recipe, canonical_json
from ..snapshot import Snapshot
from .cache import cache_folder, write_whole
from .trees import files_of

SUFFIX = ".tar.xz"
FORMAT = 1
RECIPE, BASELINE, BASE = "recipe.json", "baseline.json", "base.json"
TREES = ("env", "tree")
Member = tuple[tarfile.TarInfo, bytes]


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

    The bytes are the same wherever the same recipe was built (see above for the exceptions), given the same release of
    liblzma. Raises SnapshotError.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", format=tarfile.PAX_FORMAT, preset=6) as tar:
        for header, data in members(source):
            tar.addfile(header, io.BytesIO(data))
    sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
    path = target / f"{sha256}{SUFFIX}" if target.is_dir() else target
    try:
        path.parent.resolve(strict=True)  # write_whole would make it
        write_whole(path, buffer.getvalue())
    except OSError as error:
        raise SnapshotError(
            f"cannot write to {path.parent} ({error.strerror}); name a folder that you may write"
        ) from error
    return Packed(path, sha256, source.digest, len(buffer.getvalue()))


def members(snapshot: Snapshot) -> Iterator[Member]:
    """Yield the members of the archive in a fixed order. Raises SnapshotError for a link that leaves its tree."""
    recipe = snapshot.recipe
    yield _file(BASE, canonical_json(base_reference(recipe)).encode())
    portable = snapshot.baseline.model_copy(update={"dropped": {}, "notes": [], "seconds": 0.0})
    yield _file(BASELINE, portable.dump().encode())
    excluded = {"bin/python", "bin/python3", f"bin/python{'.'.join(recipe.python.split('.')[:2])}", "pyvenv.cfg"}
    for path in files_of(snapshot.path / "env"):
        if path.as_posix() not in excluded and "__pycache__" not in path.parts:
            yield _member(snapshot.path, Path("env") / path)
    yield _file(RECIPE, recipe.canonical().encode())
    for path in files_of(snapshot.tree):
        yield _member(snapshot.path, Path("tree") / path)
    empty = (Path(folder) for folder, names, files in os.walk(snapshot.tree) if not names and not files)
    for name in sorted(folder.relative_to(snapshot.path).as_posix() for folder in empty):
        header = tarfile.TarInfo(name)
        header.type, header.mode = tarfile.DIRTYPE, 0o755
        yield header, b""


def base_reference(recipe: Recipe) -> dict[str, str | int]:
    """Return what the archive does not contain and the machine that plays it must provide."""
    machine = {"python": recipe.python, "implementation": "cpython", "platform": recipe.platform, "base": recipe.base}
    return {"format": FORMAT, **machine, "libc": libc()}


def libc() -> str:
    """Return the C library, such as ``glibc 2.36``; empty when the system does not report it."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return " ".join(part for part in platform.libc_ver() if part)


def _file(name: str, data: bytes, mode: int = 0o644) -> Member:
    header = tarfile.TarInfo(name)  # owner, group and time are 0
    header.size, header.mode = len(data), mode
    return header, data


def _member(folder: Path, path: Path) -> Member:
    full, name = folder / path, path.as_posix()
    status = full.lstat()
    if stat.S_ISLNK(status.st_mode):
        header = tarfile.TarInfo(name)
        header.type, header.linkname, header.mode = tarfile.SYMTYPE, _inner_link(name, os.readlink(full)), 0o777
        return header, b""
    if not stat.S_ISREG(status.st_mode):
        raise SnapshotError(f"{name} is not an ordinary file; change the set-up command that made it")
    data = full.read_bytes()
    if path.name == "RECORD" and path.parent.name.endswith(".dist-info"):
        data = _record(data, full.parent.parent)
    return _file(name, data, 0o755 if status.st_mode & 0o100 else 0o644)


def _inner_link(name: str, target: str) -> str:
    folder = name.partition("/")[0]
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    if target.startswith("/") or not resolved.startswith(f"{folder}/"):
        raise SnapshotError(f"{name} is a link to {target}, outside the snapshot; replace it by the file it points to")
    return target


def _record(data: bytes, packages: Path) -> bytes:
    """Return a sorted ``RECORD`` of the files that exist, without bytecode, with the present hashes of scripts."""
    rows = []
    for row in csv.reader(io.StringIO(data.decode("utf-8", "surrogateescape"))):
        if not row or "__pycache__" in row[0] or not (packages / row[0]).is_file():
            continue
        if row[0].startswith(".."):
            content = (packages / row[0]).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            row = [row[0], f"sha256={digest}", str(len(content))]
        rows.append(row)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(sorted(rows))
    return text.getvalue().encode("utf-8", "surrogateescape")
