"""History of a snapshot's source: a note of its place, in the cache of this machine, and the reading of its objects.

Snapshots name no host path, so the place of a local repository is kept beside them and written at every request.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ....errors import NotApplicable, SnapshotError
from ..store.cache import file_lock, write_whole
from . import repositories

_SEALED = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1"}


def remember(cache: Path, digest: str, spec: str) -> None:
    """Note the repository of a source that has one: ``git+URL@REVISION``, or a folder that is a git work tree."""
    place = ""
    if spec.startswith("git+"):
        place = spec.removeprefix("git+").rpartition("@")[0]
    elif spec and Path(spec, ".git").exists():
        place = Path(spec).resolve().as_uri()
    note = _note(cache, digest)
    if place and not (note.is_file() and json.loads(note.read_text("utf-8")) == place):
        write_whole(note, json.dumps(place).encode())


@dataclass(frozen=True)
class ObjectStore:
    """A private, empty repository that borrows the objects of another one: it has no settings, hooks or references."""

    folder: Path  # the git directory
    head: str  # full id of the commit that the source was taken from

    def git(self, *arguments: str, data: bytes = b"", accepted: int = 0, identity: str = "etude") -> bytes:
        """Run a git command on the objects and return its output. Raises SnapshotError."""
        people = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", identity), ("EMAIL", identity), ("DATE", "@0 +0000"))
        }
        variables = {"GIT_DIR": str(self.folder), **_SEALED, **people}
        return repositories.git_bytes(self.folder, *arguments, variables=variables, data=data, accepted=accepted)


@contextmanager
def open_history(cache: Path, digest: str, spec: str) -> Iterator[ObjectStore]:
    """Give the objects of a source's repository for a ``with`` block; ``spec`` is the source's canonical name.

    Nothing is checked out. Objects that are made meanwhile are dropped at the end. Raises NotApplicable when the
    source has no history, and SnapshotError when its repository cannot be read.
    """
    note = _note(cache, digest)
    if not note.is_file():
        raise NotApplicable(
            f"{spec} has no history to read; give the project as git+URL@REVISION or as a folder with its .git"
        )
    place = json.loads(note.read_text("utf-8"))
    repository = _local(place) if place.startswith("file:") else _cloned(cache, place, digest)
    match = re.search(r"@([0-9a-f]{40})$", spec)
    with tempfile.TemporaryDirectory(prefix="etude-") as folder:
        common, head = _located(repository, match[1] if match else "HEAD")
        store = Path(folder, "history.git")
        repositories.run_git(Path(folder), "init", "--quiet", "--bare", "--template=", str(store), variables={})
        (store / "objects" / "info").mkdir(parents=True, exist_ok=True)
        (store / "objects" / "info" / "alternates").write_text(f"{common / 'objects'}\n", "utf-8")
        if (common / "shallow").is_file():
            (store / "shallow").write_bytes((common / "shallow").read_bytes())
        yield ObjectStore(store, head)


def _note(cache: Path, digest: str) -> Path:
    return cache / "histories" / f"{digest}.json"


def _local(place: str) -> Path:
    """Return the folder of a repository on this machine. Raises SnapshotError when it is gone."""
    path = Path(unquote(urlsplit(place).path))
    if not path.is_dir():
        raise SnapshotError(f"the repository {path} is gone; restore it, or name the source's new place")
    return path


def _cloned(cache: Path, url: str, digest: str) -> Path:
    """Return a bare clone in the cache, made when there is none. Raises SnapshotError."""
    name = re.sub(r"[^\w.-]+", "-", url)[-80:] + f"-{digest[:16]}"
    target = cache / "repositories" / name
    with file_lock(cache, f"clone-{name[-32:]}"):
        if not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix="clone-") as folder:
                try:
                    repositories.clone(url, Path(folder, "clone"))
                except SnapshotError as error:
                    raise SnapshotError(f"git cannot clone {url}: {error}; check the address and the network") from None
                os.replace(Path(folder, "clone"), target)
    return target


def _located(repository: Path, revision: str) -> tuple[Path, str]:
    """Return the folder that holds the objects, and the full id of a revision. Raises SnapshotError, NotApplicable."""
    try:
        common = repositories.run_git(repository, "rev-parse", "--git-common-dir", variables=_SEALED)
        commit = repositories.run_git(repository, "rev-parse", "--verify", f"{revision}^{{commit}}", variables=_SEALED)
    except SnapshotError as error:
        raise NotApplicable(f"the history of {repository.name} cannot be read ({error}); fetch it again") from None
    return Path(repository, common).resolve(), commit
