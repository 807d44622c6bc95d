"""Archives of sources: unpacked with a bounded size, and with no path or link that leaves the target."""

from __future__ import annotations

import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from ....errors import BadSource, BrokenArchive
from ..store.trees import MAX_BYTES, MAX_FILES, check_links

SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar", ".zip")


@dataclass(frozen=True)
class _Member:
    """One entry of an archive; ``target`` is that of a link, ``stream`` the content of a file."""

    name: str
    kind: Literal["file", "folder", "link", "hardlink"]
    target: str = ""
    executable: bool = False
    stream: IO[bytes] | None = None


def unpack(archive: Path, target: Path) -> None:
    """Unpack ``archive`` into ``target``, without its single top folder when it has one.

    Raises BrokenArchive (unreadable, too large, or a member that would land outside) and BadSource (not an archive
    of sources).
    """
    if archive.name.endswith(".whl"):
        raise BadSource(f"{archive.name} is a wheel, which contains no tests; give the source distribution (.tar.gz)")
    if not archive.name.endswith(SUFFIXES):
        raise BadSource(f"{archive.name} is not a source archive; give one of {', '.join(SUFFIXES)}")
    staging = target.with_name(target.name + ".unpacking")
    staging.mkdir(parents=True)
    try:
        _extract(archive, staging)
        check_links(staging)
        entries = list(staging.iterdir())
        single = len(entries) == 1 and entries[0].is_dir() and not entries[0].is_symlink()
        (entries[0] if single else staging).rename(target)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, BadSource) as error:
        reason = str(error).partition(":")[0]  # tarfile appends the message of each compression
        raise BrokenArchive(f"{archive.name} cannot be unpacked ({reason}); download it again") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _extract(archive: Path, staging: Path) -> None:
    members = _zip_members if archive.name.endswith(".zip") else _tar_members
    links: list[tuple[Path, _Member]] = []
    written = count = 0
    for member in members(archive):
        count += 1
        if count > MAX_FILES:
            raise BrokenArchive(f"{archive.name} has more than {MAX_FILES} members; use one of the project alone")
        path = staging / _safe(member.name)
        if member.kind == "folder":
            path.mkdir(parents=True, exist_ok=True)
        elif member.stream:
            path.parent.mkdir(parents=True, exist_ok=True)
            with member.stream as source, path.open("wb") as sink:
                while block := source.read(1 << 20):
                    written += len(block)
                    if written > MAX_BYTES:
                        raise BrokenArchive(
                            f"{archive.name} unpacks to more than {MAX_BYTES >> 20} MiB; use one of the project alone"
                        )
                    sink.write(block)
            path.chmod(0o755 if member.executable else 0o644)
        else:
            links.append((path, member))
    # Links come last, so that no member is ever written through one.
    for path, member in links:
        _make_link(staging, path, member)


def _make_link(staging: Path, path: Path, member: _Member) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.kind == "hardlink":
        shutil.copy2(staging / _safe(member.target), path, follow_symlinks=False)
        return
    _safe(posixpath.join(posixpath.dirname(member.name), member.target), "link target")
    path.symlink_to(member.target)


def _safe(name: str, what: str = "member") -> PurePosixPath:
    path = posixpath.normpath(name)
    if name.startswith("/") or path.startswith("../") or path == ".." or "\0" in name:
        raise BrokenArchive(f"the {what} {name!r} would land outside the archive's folder; do not trust this archive")
    return PurePosixPath(path)


def _tar_members(archive: Path) -> Iterator[_Member]:
    with tarfile.open(archive) as tar:
        for info in tar:
            if info.isfile():
                yield _Member(info.name, "file", "", bool(info.mode & 0o100), tar.extractfile(info))
            elif info.isdir():
                yield _Member(info.name, "folder")
            elif info.issym() or info.islnk():
                yield _Member(info.name, "link" if info.issym() else "hardlink", info.linkname)
            else:
                raise BrokenArchive(f"the member {info.name!r} is a device or a pipe; do not trust this archive")


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as archived:
        for info in archived.infolist():
            mode = info.external_attr >> 16
            if info.flag_bits & 1:
                raise BrokenArchive(f"the member {info.filename!r} is encrypted; use an archive without a password")
            if info.is_dir():
                yield _Member(info.filename, "folder")
            elif stat.S_ISLNK(mode):
                yield _Member(info.filename, "link", archived.read(info).decode("utf-8", "surrogateescape"))
            else:
                yield _Member(info.filename, "file", "", bool(mode & 0o100), archived.open(info))
