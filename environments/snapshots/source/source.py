"""Sources: where code comes from. A source distribution, a git revision, a folder or an archive becomes a tree."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ....errors import BadSource, BrokenArchive, SourceNotFound
from ..builder.interpreter import Interpreter
from ..store import trees
from . import archives, pypi, repositories
from .project_files import project_name

FORMS = "pypi:NAME==VERSION, git+URL@REVISION, a folder, or an archive (.tar.gz, .zip)"


@dataclass(frozen=True)
class Source:
    """A code base at a fixed version.

    ``spec`` is canonical and names no host path: ``pypi:name==version``, ``git+URL@commit``, ``folder:name``,
    ``archive:name``. ``sha256`` is the hash of its files. ``scm_version`` is the version that the repository's tags
    give, empty without one.
    """

    kind: Literal["pypi", "git", "folder", "archive"]
    spec: str
    name: str
    sha256: str
    scm_version: str = ""


def content_key(spec: str) -> str | None:
    """Return a text that stands for exactly one content: ``spec``, or the content's hash with it.

    Return None for a spec that can name another content tomorrow, such as a git branch.
    """
    if pypi.RELEASE.match(spec):
        return spec
    if spec.startswith("git+"):
        return spec if re.search(r"@[0-9a-f]{40}$", spec) else None
    path = Path(spec)
    if spec and path.is_dir():
        return f"folder:{path.resolve().name}#{_content_hash(path)}"
    if path.is_file():
        with path.open("rb") as stream:
            return f"archive:{path.name}#{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    return None


def fetch(spec: str, target: Path, interpreter: Interpreter, progress: Callable[[str], None]) -> Source:
    """Write the source's files to ``target``, which must not exist, without version control and caches.

    Raises BadSource, SourceNotFound, BrokenArchive.
    """
    progress(f"fetching {spec}")
    if not spec.strip():
        raise BadSource(f"the source is an empty name; write {FORMS}")
    if spec.startswith("pypi:"):
        with tempfile.TemporaryDirectory(dir=target.parent) as download:
            name, version, archive = pypi.download(spec, interpreter, Path(download))
            archives.unpack(archive, target)
        source = Source("pypi", f"pypi:{name}=={version}", name, "")
    elif spec.startswith("git+"):
        exported = repositories.export(spec, target)
        source = Source("git", exported.spec, exported.name, "", exported.version)
    elif "://" in spec:
        raise BadSource(f"{spec} is not a source; write {FORMS}")
    else:
        source = _fetch_path(Path(spec), target)
    for folder in (target / ".git", target / ".hg"):
        trees.remove(folder)
    trees.normalise(target)
    if not any(trees.files_of(target)):
        raise BadSource(f"{spec} contains no files; name another source")
    return replace(source, name=source.name or project_name(target), sha256=trees.tree_hash(target))


def _fetch_path(path: Path, target: Path) -> Source:
    if path.is_dir():
        trees.copy_source(path, target)
        return _named("folder", project_name(target, "") or path.resolve().name)
    if path.is_file():
        archives.unpack(path, target)
        stem = re.sub(r"(-\d.*)?\.(tar\.\w+|tgz|tar|zip)$", "", path.name)
        return _named("archive", project_name(target, "") or stem)
    if pypi.RELEASE.match(f"pypi:{path}"):
        raise SourceNotFound(f"{path} does not exist. Did you mean pypi:{path}?")
    raise SourceNotFound(f"{path} does not exist; write {FORMS}")


def _named(kind: Literal["folder", "archive"], name: str) -> Source:
    plain = re.sub(r"[^\w.-]+", "-", name)
    return Source(kind, f"{kind}:{plain}", name, "")


def locate(spec: str, sha256: str, places: Iterable[Path]) -> Path | str:
    """Return how to fetch a recorded source: its spec if that can be fetched, else a path in ``places`` by content.

    Raises SourceNotFound, which says how to provide the source.
    """
    if spec.startswith("pypi:") or re.match(r"^git\+(?!local:)", spec):
        return spec
    for place in places:
        for path in [place, *sorted(place.iterdir())] if place.is_dir() else [place]:
            with contextlib.suppress(BadSource, SourceNotFound, BrokenArchive, OSError, shutil.Error):
                if _content_hash(path) == sha256:
                    return path
    raise SourceNotFound(
        f"the snapshot's source {spec} (sha256 {sha256[:12]}) is not available; put its folder or archive into a "
        f"folder and set ETUDE_SOURCES to it"
    )


def _content_hash(path: Path) -> str:
    """Return the hash that ``fetch`` would record. Raises as it does."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        _fetch_path(path, tree)
        trees.normalise(tree)
        return trees.tree_hash(tree)


def source_places(first: Iterable[Path] = ()) -> list[Path]:
    """Return ``first``, then the folders of ``ETUDE_SOURCES`` (separated like PATH)."""
    named = os.environ.get("ETUDE_SOURCES", "")
    return [*first, *(Path(part) for part in named.split(os.pathsep) if part)]
