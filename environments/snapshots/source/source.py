"""Where code comes from: a source distribution, a git revision, a folder, an archive."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Literal

from ....errors import BadSource, BrokenArchive, SourceNotFound
from ..builder.interpreter import Interpreter
from ..builder.pip import bare_python, download_sdist
from ..store import trees
from . import archives, repositories

FORMS = "pypi:NAME==VERSION, git+URL@REVISION, a folder, or an archive (.tar.gz, .zip)"
_PYPI = re.compile(r"^pypi:(?P<name>[A-Za-z0-9][\w.-]*?)(\[[^\]]*\])?==(?P<version>[\w.!+-]+)$")


@dataclass(frozen=True)
class Source:
    """A code base at a fixed version.

    ``spec`` is canonical and names no host path: ``pypi:name==version``, ``git+URL@commit``, ``folder:name``,
    ``archive:name``. ``sha256`` is the hash of its files. ``scm_version``: what the repository's tags say, if any.
    """

    kind: Literal["pypi", "git", "folder", "archive"]
    spec: str
    name: str
    sha256: str
    scm_version: str = ""


def request_of(spec: str) -> str | None:
    """A text that stands for exactly one content: ``spec``, or the content's hash with it; None when it can move."""
    if _PYPI.match(spec):
        return spec
    if spec.startswith("git+"):
        return spec if re.search(r"@[0-9a-f]{40}$", spec) else None
    path = Path(spec)
    if spec and path.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            trees.copy_source(path, Path(folder, "tree"))
            trees.normalise(Path(folder, "tree"))
            return f"folder:{path.resolve().name}#{trees.tree_hash(Path(folder, 'tree'))}"
    if path.is_file():
        return f"archive:{path.name}#{_file_hash(path)}"
    return None


def _file_hash(path: Path) -> str:
    import hashlib

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch(spec: str, target: Path, interpreter: Interpreter, progress: Callable[[str], None]) -> Source:
    """Bring the source's files to ``target`` (made here), without version control and caches.

    Raises BadSource, SourceNotFound, BrokenArchive.
    """
    progress(f"fetching {spec}")
    if not spec.strip():
        raise BadSource(f"the source is an empty name: write {FORMS}")
    if spec.startswith("pypi:"):
        source = _fetch_pypi(spec, target, interpreter)
    elif spec.startswith("git+"):
        found = repositories.export(spec, target)
        source = Source("git", found.spec, found.name, "", found.version)
    elif "://" in spec:
        raise BadSource(f"{spec} is not a source: write {FORMS}")
    else:
        source = _fetch_path(Path(spec), target)
    for folder in (target / ".git", target / ".hg"):
        trees.remove(folder)
    trees.normalise(target)
    if not any(trees.files_of(target)):
        raise BadSource(f"{spec} holds no files: name another source")
    name = source.name or project_name(target)
    return Source(source.kind, source.spec.format(name=name), name, trees.tree_hash(target), source.scm_version)


def _fetch_pypi(spec: str, target: Path, interpreter: Interpreter) -> Source:
    match = _PYPI.match(spec)
    if not match:
        raise BadSource(f"{spec!r} names no exact version: write pypi:NAME==VERSION, without spaces")
    name, version = match["name"].lower().replace("_", "-"), match["version"]
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        python = bare_python(interpreter, Path(folder, "python"))
        archive = download_sdist(python, name, version, Path(folder, "sdist"))
        archives.unpack(archive, target)
    return Source("pypi", f"pypi:{name}=={version}", name, "")


def _fetch_path(path: Path, target: Path) -> Source:
    if path.is_dir():
        trees.copy_source(path, target)
        name = project_name(target, "") or path.resolve().name
        return Source("folder", f"folder:{_plain(name)}", name, "")
    if path.is_file():
        archives.unpack(path, target)
        name = project_name(target, "") or re.sub(r"(-\d.*)?\.(tar\.\w+|tgz|tar|zip)$", "", path.name)
        return Source("archive", f"archive:{_plain(name)}", name, "")
    if _PYPI.match(f"pypi:{path}"):
        raise SourceNotFound(f"{path} does not exist. Did you mean pypi:{path}?")
    raise SourceNotFound(f"{path} does not exist: write {FORMS}")


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)


def project_name(tree: Path, default: str = "project") -> str:
    """The project's name as its own files say it, without running any of them."""
    project = read_pyproject(tree)
    told = project.get("project", {}).get("name") or project.get("tool", {}).get("poetry", {}).get("name")
    if isinstance(told, str):
        return told
    if name := read_ini(tree / "setup.cfg").get("metadata", "name", fallback=""):
        return name
    info = tree / "PKG-INFO"
    headers = HeaderParser().parsestr(info.read_text("utf-8", "replace")) if info.is_file() else None
    return (headers["Name"] if headers else None) or default


def read_pyproject(tree: Path) -> dict:
    """``pyproject.toml``, or nothing when there is none or it is broken (pip says so better)."""
    try:
        return tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def read_ini(path: Path) -> ConfigParser:
    """An ini file, or an empty one."""
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(path.read_text("utf-8", "replace"))
    except (OSError, ConfigError):
        return ConfigParser(interpolation=None)
    return parser


def locate(spec: str, sha256: str, places: Iterable[Path]) -> Path | str:
    """Where the recorded source is at hand: its spec for what can be fetched, else a path in ``places`` by content.

    Raises SourceNotFound that says how to provide it.
    """
    if spec.startswith("pypi:") or re.match(r"^git\+(?!local:)", spec):
        return spec
    for place in places:
        for path in [place, *sorted(place.iterdir())] if place.is_dir() else [place]:
            if _content_hash(path) == sha256:
                return path
    raise SourceNotFound(
        f"the snapshot's source {spec} (sha256 {sha256[:12]}) is not at hand: put its folder or archive into a folder "
        f"and set ETUDE_SOURCES to it"
    )


def _content_hash(path: Path) -> str:
    """The hash ``fetch`` would record; empty for what is not a source."""
    if not path.is_dir() and not path.name.endswith(archives.SUFFIXES):
        return ""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        try:
            _fetch_path(path, tree)
        except (BadSource, SourceNotFound, BrokenArchive, OSError, shutil.Error):
            return ""
        trees.normalise(tree)
        return trees.tree_hash(tree)


def source_places(given: Iterable[Path] = ()) -> list[Path]:
    """``given``, then the folders of ``ETUDE_SOURCES`` (separated like PATH)."""
    named = os.environ.get("ETUDE_SOURCES", "")
    return [*given, *(Path(part) for part in named.split(os.pathsep) if part)]
