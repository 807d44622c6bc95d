"""Packages from the configured index, through uv: resolve with hashes, install by hash, build a wheel."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.markers import Environment, default_environment
from packaging.pylock import PackageSdist, PackageWheel, Pylock, PylockSelectError, PylockValidationError
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name

from ....errors import BuildFailed, DependencyFailed, SnapshotError
from .interpreter import Interpreter
from .uv_command import UvResult, run_uv, uv_options


@dataclass(frozen=True)
class Resolution:
    """Closed set of distributions: canonical name -> ``name==version --hash=sha256:...`` of the one file to install."""

    locked: Mapping[str, str] = field(default_factory=dict)

    def lines(self, without: Iterable[str] = ()) -> list[str]:
        """Return the locked requirements, sorted by name, except for the distributions in ``without``."""
        excluded = {canonicalize_name(name) for name in without}
        return [self.locked[name] for name in sorted(self.locked) if name not in excluded]


def requirement_name(text: str) -> str:
    """Return the canonical distribution name of a requirement; empty when it cannot be parsed."""
    try:
        return canonicalize_name(Requirement(text).name)
    except InvalidRequirement:
        return ""


def compile_lock(
    interpreter: Interpreter, requirements: Sequence[str], folder: Path, options: Sequence[str] = ()
) -> Pylock | UvResult:
    """Resolve ``requirements`` for ``interpreter``; return the lock (PEP 751), or uv's result when there is none."""
    source, lock = folder / "requirements.in", folder / "pylock.toml"
    source.write_text("".join(f"{text}\n" for text in requirements), "utf-8")
    lock.unlink(missing_ok=True)
    target = ["--python", str(interpreter.executable), "--output-file", str(lock), str(source)]
    result = run_uv("pip", "compile", "--quiet", "--no-header", *options, *uv_options(), *target)
    if not result.ok:
        return result
    try:
        return Pylock.from_dict(tomllib.loads(lock.read_text("utf-8")))
    except (OSError, ValueError, PylockValidationError) as error:
        raise SnapshotError(f"uv's lock file cannot be read ({error}); install uv 0.13 or later") from error


def resolve(interpreter: Interpreter, requirements: Sequence[str], folder: Path, as_of: str = "") -> Resolution:
    """Resolve to exact files, each with its hash, for ``interpreter``; ``as_of`` leaves out files of later dates.

    Raises DependencyFailed.
    """
    names = ", ".join(requirements)
    lock = compile_lock(interpreter, requirements, folder, ["--exclude-newer", as_of] if as_of else [])
    if isinstance(lock, UvResult):
        raise DependencyFailed(
            f"cannot resolve {names}: {lock.error_text()}; change the requirements, or configure a package index that "
            f"has them"
        )
    version = interpreter.release[:2]
    tags = [*cpython_tags(version), *compatible_tags(version, f"cp{version[0]}{version[1]}")]
    try:
        return Resolution(dict(_locked_lines(lock, marker_environment(interpreter), tags)))
    except PylockSelectError as error:
        raise DependencyFailed(f"cannot resolve {names}: {error}; require another version of that package") from error


def _locked_lines(lock: Pylock, environment: Environment, tags: Sequence[Tag]) -> Iterator[tuple[str, str]]:
    for package, file in lock.select(environment=environment, tags=tags):
        digest = file.hashes.get("sha256") if isinstance(file, PackageWheel | PackageSdist) else None
        if not digest or package.version is None:
            raise DependencyFailed(
                f"{package.name} comes without a sha256; depend on a released file, not on a folder or a repository"
            )
        yield package.name, f"{package.name}=={package.version} --hash=sha256:{digest}"


def marker_environment(interpreter: Interpreter) -> Environment:
    """Return the values of environment markers for ``interpreter``, which runs on this platform."""
    return Environment(
        **{
            **default_environment(),
            "python_version": interpreter.short,
            "python_full_version": interpreter.version,
            "implementation_version": interpreter.version,
        }
    )


def install_locked(python: Path, lines: Sequence[str], folder: Path, as_of: str = "") -> UvResult:
    """Install exactly ``lines`` (``name==version --hash=...``) into the environment of ``python``, and nothing else.

    ``as_of`` leaves out later files of the tools that build a source distribution. Files are copied, never linked:
    uv's cache may not change what a snapshot holds.
    """
    lock = folder / "lock.txt"
    lock.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    options = ["--no-deps", "--require-hashes", "--link-mode", "copy", *uv_options()]
    options += ["--exclude-newer", as_of] if as_of else []
    # Everything is pinned already, and uv refuses to check hashes beside constraints or overrides, which have none.
    unpinned = {"UV_CONSTRAINT": "", "UV_OVERRIDE": ""}
    target = ["--python", str(python), "--requirements", str(lock)]
    result = run_uv("pip", "install", "--quiet", *options, *target, environment=unpinned)
    (python.parent.parent / ".lock").unlink(missing_ok=True)
    return result


def failed_builds(log: str) -> set[str]:
    """Return the canonical names of the distributions that uv reported as impossible to build."""
    return {canonicalize_name(name) for name in re.findall(r"[Ff]ailed to (?:\w+ and )?build `([\w.-]+?)[\s=@`]", log)}


def build_wheel(interpreter: Interpreter, tree: Path, folder: Path, variables: Mapping[str, str], project: str) -> Path:
    """Build a wheel of ``tree`` into ``folder`` in an isolated environment. Raises BuildFailed.

    The build runs the project's own code on this machine; what it requires comes from the configured index.
    """
    target = ["--python", str(interpreter.executable), "--out-dir", str(folder), str(tree)]
    result = run_uv("build", "--wheel", *uv_options(), *target, environment=variables)
    wheels = sorted(folder.glob("*.whl")) if folder.is_dir() else []
    if not result.ok or not wheels:
        text = result.error_text().replace(f"{tree}{os.sep}", "")
        raise BuildFailed(f"{project} does not build: {text}; make `uv build --wheel` work there")
    return wheels[0]
