"""Content of a Snapshot's archive: the parts that are the same on every machine, in a fixed order.

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
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ....errors import SnapshotError
from ..recipe import Recipe, canonical_json
from ..snapshot import Snapshot
from ..test_run.baseline import Baseline
from .trees import files_of

FORMAT = 1
RECIPE, BASELINE, BASE = "recipe.json", "baseline.json", "base.json"
TREES = ("env", "tree")
_HEAD = ("bin/python", "bin/python3", "pyvenv.cfg")


@dataclass(frozen=True)
class Member:
    """One file, symlink or empty folder of the archive; ``link`` is a target, else ``data`` the content."""

    name: str
    data: bytes = b""
    executable: bool = False
    link: str = ""
    folder: bool = False


def members(snapshot: Snapshot) -> Iterator[Member]:
    """Yield the members of the archive in a fixed order. Raises SnapshotError for a link that leaves its tree."""
    yield Member(BASE, canonical_json(base_reference(snapshot.recipe)).encode())
    yield Member(BASELINE, portable_baseline(snapshot.baseline).dump().encode())
    short = ".".join(snapshot.recipe.python.split(".")[:2])
    excluded = {*_HEAD, f"bin/python{short}"}
    for path in files_of(snapshot.path / "env"):
        if path.as_posix() not in excluded and "__pycache__" not in path.parts:
            yield _member(snapshot.path / "env", path, "env")
    yield Member(RECIPE, snapshot.recipe.canonical().encode())
    for path in files_of(snapshot.tree):
        yield _member(snapshot.tree, path, "tree")
    empty = (Path(folder) for folder, names, files in os.walk(snapshot.tree) if not names and not files)
    for name in sorted(f"tree/{folder.relative_to(snapshot.tree).as_posix()}" for folder in empty):
        yield Member(name, folder=True)


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


def portable_baseline(baseline: Baseline) -> Baseline:
    """Return the baseline without what differs between measurements: seconds, reasons of dropped tests, notes."""
    return baseline.model_copy(update={"dropped": {}, "notes": [], "seconds": 0.0})


def _member(root: Path, path: Path, prefix: str) -> Member:
    full, name = root / path, f"{prefix}/{path.as_posix()}"
    status = full.lstat()
    if stat.S_ISLNK(status.st_mode):
        return Member(name, link=_inner_link(name, os.readlink(full)))
    if not stat.S_ISREG(status.st_mode):
        raise SnapshotError(f"{name} is not an ordinary file; change the set-up command that made it")
    data = full.read_bytes()
    if path.name == "RECORD" and path.parent.name.endswith(".dist-info"):
        data = _record(data, full.parent.parent)
    return Member(name, data, executable=bool(status.st_mode & 0o100))


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
