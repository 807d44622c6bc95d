"""The project's metadata, and the files that only its build makes, read from a wheel that is not installed."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.message import Message
from email.parser import BytesHeaderParser
from importlib.metadata import PathDistribution
from pathlib import Path

from ....errors import BuildFailed
from ..builder.interpreter import Interpreter
from ..builder.packages import build_wheel
from ..source.project_files import project_name, read_pyproject
from ..source.source import Source
from . import licences
from .requirements import read_requirements

_INLINE_BYTES = 32 * 1024
_SCM_VARIABLES = (
    "SETUPTOOLS_SCM_PRETEND_VERSION",
    "PDM_BUILD_SCM_VERSION",
    "PBR_VERSION",
    "POETRY_DYNAMIC_VERSIONING_BYPASS",
)


@dataclass(frozen=True)
class Project:
    """Metadata from a build. ``members`` maps a wheel's paths below site-packages to contents; empty without a wheel.

    ``dist_info`` maps the paths of the installed metadata to contents, ``scripts`` console scripts to entry points.
    """

    name: str
    version: str
    licence: str = ""
    requires_python: str = ""
    requires_dist: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    top_level: tuple[str, ...] = ()
    scripts: Mapping[str, str] = field(default_factory=dict)
    dist_info: Mapping[str, bytes] = field(default_factory=dict)
    members: Mapping[str, bytes] = field(default_factory=dict)


def inspect(
    tree: Path, source: Source, interpreter: Interpreter, folder: Path, environment: Mapping[str, str] | None = None
) -> Project:
    """Build a wheel from a copy of ``tree`` and read it; without a build, read the tree's requirements and licence.

    The build runs the project's own code on this machine, as any installation does, with ``environment`` added to its
    variables. Raises BuildFailed.
    """
    if not _builds(tree):
        runtime = read_requirements(tree / "requirements.txt") if (tree / "requirements.txt").is_file() else []
        return Project(source.name, "0", licences.detect(Message(), tree), requires_dist=tuple(runtime))
    copy = folder / "build-copy"
    shutil.copytree(tree, copy, symlinks=True)
    version = source.scm_version or ("" if (tree / "PKG-INFO").is_file() else "0.0.0")
    variables = {**(dict.fromkeys(_SCM_VARIABLES, version) if version else {}), **(environment or {})}
    wheel = build_wheel(interpreter, copy, folder / "wheels", variables, project_name(tree, source.name))
    shutil.rmtree(copy, ignore_errors=True)
    return read_wheel(wheel, tree)


def read_static(tree: Path) -> Project | None:
    """Return the metadata that a source distribution carries for a project whose build fails; None without any.

    The import names are left to the layout, and the entry points come from ``pyproject.toml``.
    """
    path = tree / "PKG-INFO"
    headers = BytesHeaderParser().parsebytes(path.read_bytes()) if path.is_file() else Message()
    if not headers["Name"] or not headers["Version"]:
        return None
    project = read_pyproject(tree).get("project", {})
    scripts = {name: target for name, target in project.get("scripts", {}).items() if isinstance(target, str)}
    groups = {"console_scripts": scripts, **project.get("entry-points", {})}
    sections = [
        [f"[{group}]", *(f"{key} = {value}" for key, value in table.items())] for group, table in groups.items()
    ]
    points = "\n".join(line for section in sections for line in section) + "\n"
    info = f"{re.sub(r'[-_.]+', '_', headers['Name'])}-{headers['Version']}.dist-info"
    return _project(headers, tree, info, {f"{info}/entry_points.txt": points.encode()}, scripts)


def _builds(tree: Path) -> bool:
    """Return whether the project declares a build. Raises BuildFailed when its ``pyproject.toml`` is not TOML."""
    project = read_pyproject(tree)
    if not project and (tree / "pyproject.toml").is_file():
        try:
            tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise BuildFailed(f"pyproject.toml is not TOML ({error}); repair it") from error
    if "project" in project or "build-system" in project or "poetry" in project.get("tool", {}):
        return True
    perl = (tree / "Makefile.PL").exists()
    return (tree / "setup.py").is_file() or ((tree / "setup.cfg").is_file() and not perl)


def read_wheel(path: Path, tree: Path) -> Project:
    """Return the metadata and contents of a wheel built from ``tree``, held in memory."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
        info = next(name.partition("/")[0] for name in contents if name.partition("/")[0].endswith(".dist-info"))
        scripts = PathDistribution(zipfile.Path(archive, f"{info}/")).entry_points.select(group="console_scripts")
    headers = BytesHeaderParser().parsebytes(contents[f"{info}/METADATA"])
    project = _project(headers, tree, info, contents, {script.name: script.value for script in scripts})
    members = {_installed_path(name): data for name, data in contents.items() if _installed_path(name)}
    members = {name: data for name, data in members.items() if not name.startswith(f"{info}/")}
    return replace(project, top_level=tuple(sorted({_top_level(name) for name in members} - {""})), members=members)


def _project(
    headers: Message, tree: Path, info: str, contents: Mapping[str, bytes], scripts: Mapping[str, str]
) -> Project:
    return Project(
        name=str(headers["Name"]),
        version=str(headers["Version"]),
        licence=licences.detect(headers, tree),
        requires_python=str(headers["Requires-Python"] or ""),
        requires_dist=tuple(str(text) for text in headers.get_all("Requires-Dist", [])),
        extras=tuple(str(text) for text in headers.get_all("Provides-Extra", [])),
        scripts=scripts,
        dist_info=_dist_info(info, contents, headers),
    )


def _installed_path(name: str) -> str:
    """Return a wheel member's path below site-packages; empty for scripts, headers and data."""
    if ".data/" in name:
        kind, _, path = name.partition(".data/")[2].partition("/")
        return path if kind in ("purelib", "platlib") else ""
    return name


def _top_level(name: str) -> str:
    first, slash, _ = name.partition("/")
    if slash:
        return first if first.isidentifier() and name.endswith((".py", ".so", ".pyi")) else ""
    return first.split(".")[0] if first.endswith((".py", ".so")) else ""


def _dist_info(info: str, contents: Mapping[str, bytes], headers: Message) -> dict[str, bytes]:
    """Return the dist-info that ``importlib.metadata`` needs, without the long description: it can show solutions."""
    lines = [f"{key}: {_folded(value)}" for key, value in headers.items() if key.lower() != "description"]
    files = {
        f"{info}/METADATA": ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"),
        f"{info}/INSTALLER": b"etude\n",
    }
    names = [f"{info}/{name}" for name in ("entry_points.txt", "top_level.txt", "WHEEL")]
    return {**files, **{name: contents[name] for name in names if name in contents}}


def _folded(value: object) -> str:
    return str(value).replace("\r", "").replace("\n", "\n        ")


def generated_files(project: Project, packages: Mapping[str, str], tree: Path) -> dict[str, bytes]:
    """Return the files of the packages that only the build has (``_version.py``, compiled modules), by tree path."""
    files: dict[str, bytes] = {}
    for name, data in project.members.items():
        first = name.partition("/")[0]
        if first in packages and "/" in name:
            path = f"{packages[first]}{name[len(first) :]}"
        elif first.split(".")[0] in packages and first.endswith(".so"):
            root = packages[first.split(".")[0]]
            path = f"{root.rpartition('/')[0]}/{first}".lstrip("/")
        else:
            continue
        if not (tree / path).exists() and not path.endswith((".pyc", ".c", ".pyx")):
            files[path] = data
    return files


def pack(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return generated files as a recipe stores them: small ones in full, large ones by hash."""
    return {
        path: f"base64:{base64.b64encode(data).decode()}"
        if len(data) <= _INLINE_BYTES
        else f"sha256:{hashlib.sha256(data).hexdigest()}"
        for path, data in sorted(files.items())
    }


def unpack(packed: Mapping[str, str], built: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the generated files of a recipe, large ones from ``built``. Raises BuildFailed when one differs now."""
    files = {}
    for path, text in packed.items():
        kind, _, value = text.partition(":")
        files[path] = base64.b64decode(value) if kind == "base64" else built.get(path, b"")
        if kind == "sha256" and hashlib.sha256(files[path]).hexdigest() != value:
            raise BuildFailed(
                f"the build makes another {path} than recorded, its build tools have changed; generate the tasks again"
            )
    return files


def write_files(tree: Path, files: Mapping[str, bytes]) -> None:
    """Write files below ``tree``, with their folders."""
    for path, data in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(data)
