"""pip, run for another interpreter with the user's own configuration: download, build, resolve, install by hash."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ....errors import DependencyFailed, SnapshotError, SourceNotFound
from ..errors import last_lines
from .interpreter import Interpreter

TIMEOUT_S = 900.0
# These settings of a user's own would send packages elsewhere than asked.
_UNWANTED = (
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_REQUIRE_HASHES",
    "PIP_PYTHON",
)


@dataclass(frozen=True)
class PipResult:
    ok: bool
    log: str

    def errors(self) -> str:
        """pip's own ERROR lines when it wrote any, else the end of the log."""
        told = [line for line in self.log.splitlines() if line.lstrip().lower().startswith(("error:", "fatal"))]
        noise = ("subprocess-exited-with-error", "metadata-generation-failed")
        told = [_shorter(line) for line in told if not any(word in line for word in noise)]
        return last_lines("\n".join(told), 3) if told else last_lines(self.log)


def _shorter(line: str) -> str:
    """pip lists every version that there is: the last ones are enough."""
    return re.sub(r"(from versions: )(?:[^,)]*, ){8,}((?:[^,)]*, ){5}[^,)]*)\)", r"\1..., \2)", line)


@dataclass(frozen=True)
class Locked:
    """One distribution of a resolved set: what is installed, and what it asks for."""

    name: str
    version: str
    sha256: str
    requires: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True)
class Resolution:
    """A closed set of distributions, by canonical name."""

    locked: Mapping[str, Locked] = field(default_factory=dict)

    def lines(self, without: Iterable[str] = ()) -> list[str]:
        left_out = {canonicalize_name(name) for name in without}
        return [self.locked[name].line for name in sorted(self.locked) if name not in left_out]

    def closure(self, names: Iterable[str]) -> set[str]:
        """``names`` and everything that they need, as far as it is in the set; needs of extras are left out."""
        todo, seen = [str(canonicalize_name(name)) for name in names], set[str]()
        while todo:
            name = todo.pop()
            if name in seen or name not in self.locked:
                continue
            seen.add(name)
            plain = (text for text in self.locked[name].requires if "extra ==" not in text)
            todo.extend(found for text in plain if (found := requirement_name(text)))
        return seen


def requirement_name(text: str) -> str:
    """The canonical distribution name of a requirement; empty when it cannot be read."""
    try:
        return canonicalize_name(Requirement(text).name)
    except InvalidRequirement:
        return ""


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would lead a build or pip astray."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _UNWANTED and not name.startswith(("PYTHON", "VIRTUAL_ENV", "COV_", "PYTEST_"))
    }
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", **(extra or {})}


@functools.lru_cache(maxsize=16)
def _pip_for(python: str) -> tuple[str, ...]:
    """A pip that can serve ``python``: this process's, else the interpreter's own."""
    found = importlib.util.find_spec("pip") is not None
    ways = [(sys.executable, "-m", "pip", "--python", python)] if found else []
    base = os.path.realpath(python)
    ways += [(base, "-m", "pip", "--python", python)]
    for way in ways:
        done = subprocess.run([*way, "--version"], capture_output=True, env=clean_environment(), check=False)
        if done.returncode == 0:
            return way
    raise SnapshotError(f"no pip serves {python}: run `{sys.executable} -m ensurepip`, then try again")


def run_pip(python: Path, *args: str, environment: Mapping[str, str] | None = None) -> PipResult:
    """Run pip for the environment of ``python``; never raises for a failing pip."""
    command = [*_pip_for(str(python)), *args]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=clean_environment(environment),
            timeout=TIMEOUT_S,
            check=False,
            cwd="/",
        )
    except subprocess.TimeoutExpired as error:
        return PipResult(
            False, (error.stdout or b"").decode("utf-8", "replace") + f"\nERROR: no end in {TIMEOUT_S:.0f} s"
        )
    return PipResult(done.returncode == 0, done.stdout.decode("utf-8", "replace"))


def download_sdist(python: Path, name: str, version: str, target: Path) -> Path:
    """Fetch the source distribution. Raises SourceNotFound when the index has none, or cannot be reached."""
    wanted = f"{name}=={version}"
    # For this name alone: build tools may come as wheels.
    result = run_pip(python, "download", "--no-deps", "--no-binary", name, "--dest", str(target), wanted)
    archives = sorted(path for path in target.iterdir() if path.is_file()) if target.is_dir() else []
    if result.ok and archives:
        return archives[0]
    listed = re.search(r"from versions: ([^)]*)\)", result.log)
    advice = "check name and version, or write git+URL@TAG for one that has wheels alone"
    if listed:
        versions = [text for text in listed.group(1).split(", ") if text != "none"]
        known = f"it has {', '.join(versions[-6:])}" if versions else "it has none"
        raise SourceNotFound(f"no source distribution {wanted} on the package index ({known}): {advice}")
    if "No matching distribution" in result.log:
        raise SourceNotFound(f"no source distribution {wanted} on the package index: {advice}")
    raise SourceNotFound(f"pip could not fetch {wanted}: {result.errors()}")


def resolve(python: Path, requirements: Sequence[str], folder: Path) -> Resolution:
    """Resolve to exact versions with hashes, for the interpreter of ``python``. Raises DependencyFailed."""
    report = folder / "report.json"
    arguments = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", str(report), *requirements]
    result = run_pip(python, *arguments)
    if not result.ok:
        raise DependencyFailed(
            f"cannot resolve {', '.join(requirements)}: {result.errors()}; name a source whose requirements this "
            f"machine's pip can find, or set pip's index"
        )
    try:
        told = json.loads(report.read_text("utf-8"))
        return Resolution({lock.name: lock for lock in map(_locked, told["install"])})
    except (OSError, ValueError, KeyError) as error:
        raise DependencyFailed(f"pip's report cannot be read ({error!r}): upgrade pip to 23 or later") from error


def _locked(entry: dict[str, Any]) -> Locked:
    metadata, archive = entry["metadata"], entry["download_info"].get("archive_info", {})
    name = canonicalize_name(metadata["name"])
    digest = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
    if not digest:
        raise DependencyFailed(f"{name} comes without a hash: depend on a released file, not on a folder or repository")
    return Locked(name, metadata["version"], digest, tuple(metadata.get("requires_dist", ())))


def install_locked(python: Path, lines: Sequence[str], folder: Path) -> PipResult:
    """Install exactly ``lines`` (``name==version --hash=...``) and nothing else."""
    lock = folder / "lock.txt"
    lock.write_text("".join(f"{line}\n" for line in lines))
    return run_pip(
        python, "install", "--no-deps", "--require-hashes", "--no-compile", "--no-warn-script-location", "-r", str(lock)
    )


def failed_builds(log: str) -> set[str]:
    """Which distributions pip said it could not build."""
    found = re.findall(r"Failed building wheel for ([\w.-]+)|Failed to build '?([\w.-]+)", log)
    found += re.findall(r"Could not build wheels for ([\w.-]+)()", log)
    return {canonicalize_name(first or second) for first, second in found}


def bare_python(interpreter: Interpreter, folder: Path) -> Path:
    """An empty virtual environment: what pip takes for the interpreter when nothing is installed in it."""
    make_head(folder, str(interpreter.executable), interpreter)
    return folder / "bin" / "python"


def make_head(folder: Path, executable: str, interpreter: Interpreter) -> None:
    """A virtual environment's outer parts: ``pyvenv.cfg``, ``bin/python*`` pointing at ``executable``, ``lib``."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    library = folder / "lib"
    if not library.is_symlink():
        (library / f"python{interpreter.short}" / "site-packages").mkdir(parents=True, exist_ok=True)
    home = os.path.dirname(executable)
    config = f"home = {home}\ninclude-system-site-packages = false\nversion = {interpreter.version}\n"
    (folder / "pyvenv.cfg").write_text(config)
    for name, target in (("python", executable), ("python3", "python"), (f"python{interpreter.short}", "python")):
        link = folder / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
