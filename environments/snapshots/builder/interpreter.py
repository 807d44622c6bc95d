"""Python interpreters: which one a snapshot runs on, and a copy of it with nothing installed in it."""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ....errors import UnsupportedPython
from ...sandbox import PYTHON_PREFIX
from ..store.cache import file_lock, temporary_folder
from ..store.trees import normalise
from .uv_command import run_uv

_PROBE = """
import json, os, sys, sysconfig
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3], "prefix": os.path.realpath(sys.base_prefix),
    "executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "platform": sysconfig.get_platform(), "implementation": sys.implementation.name,
    "shared": bool(sysconfig.get_config_var("Py_ENABLE_SHARED"))}))
"""
OLDEST = (3, 8)
"""The oldest Python that the pytest plugin supports."""
# Not copied: installed packages above all, then what a sandbox never needs.
_EXCLUDED = frozenset(
    "site-packages dist-packages test tests idlelib turtledemo ensurepip tkinter lib2to3 pkgconfig __phello__".split()
)
_EXCLUDED_SUFFIXES = (".a", ".o", ".exe")


@dataclass(frozen=True)
class Interpreter:
    """A CPython on this machine. ``prefix`` and ``executable`` are real host paths; ``shared``: it needs libpython."""

    version: str
    prefix: Path
    executable: Path
    platform: str
    implementation: str
    shared: bool

    @property
    def short(self) -> str:
        """Return the version without the patch level, such as ``3.12``."""
        return ".".join(self.version.split(".")[:2])

    @property
    def release(self) -> tuple[int, ...]:
        """Return the version as numbers, which compare correctly."""
        return _release(self.version)

    @property
    def in_base(self) -> bool:
        """Return whether the base layer of every sandbox already contains this interpreter."""
        return self.prefix == Path("/usr")

    @property
    def inside(self) -> str:
        """Return the path of the executable in a sandbox."""
        return str(self.executable) if self.in_base else f"{PYTHON_PREFIX}/bin/{self.executable.name}"


@functools.lru_cache(maxsize=64)
def probe(executable: str) -> Interpreter | None:
    """Run an interpreter to learn its version and paths; return None when it does not run or is not CPython."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        process = subprocess.run(
            [executable, "-I", "-S", "-c", _PROBE], capture_output=True, timeout=60, env=environment, check=True
        )
        fields = json.loads(process.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if fields["implementation"] != "cpython":
        return None
    return Interpreter(**{**fields, "prefix": Path(fields["prefix"]), "executable": Path(fields["executable"])})


def _candidates() -> Iterator[Path]:
    """Yield the executables to probe: this process's, those that uv finds (PATH, its own), pyenv's, newest first."""
    yield Path(sys.executable)
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    path = os.pathsep.join([os.environ.get("PATH", ""), *sorted(glob.glob(f"{pyenv}/versions/[0-9]*/bin"))])
    result = run_uv("python", "list", "--only-installed", "--output-format", "json", environment={"PATH": path})
    entries = json.loads(result.output) if result.ok else []
    yield from (Path(entry["path"]) for entry in entries if entry["implementation"] == "cpython")


def find_interpreter(request: str | None = None) -> Interpreter:
    """Find the interpreter for ``3.12``, ``3.12.1`` or a path; for None, the one that runs Etude.

    Raises UnsupportedPython, which names the version needed and the versions found.
    """
    if request and ("/" in request or not request[0].isdigit()):
        interpreter = probe(request)
        if interpreter is None:
            raise UnsupportedPython(
                f"{request} is not a CPython that runs; give a version (3.12) or an interpreter's path"
            )
        return interpreter
    for interpreter in _interpreters():
        if not request or f"{interpreter.version}.".startswith(f"{request}."):
            return interpreter
    raise UnsupportedPython(
        f"Python {request} is needed, this machine has {installed_versions()}; install it, or choose another "
        f"with --python X.Y"
    )


def installed_versions() -> str:
    """Return the versions of the usable interpreters, for an error text."""
    versions = sorted({interpreter.version for interpreter in _interpreters()}, key=_release)
    return ", ".join(versions) or "none"


def _interpreters() -> Iterator[Interpreter]:
    """Yield every usable interpreter on this machine; the one that runs Etude comes first."""
    for path in _candidates():
        if os.path.isfile(path) and (interpreter := probe(str(path))):
            yield interpreter


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)


def check_requires(interpreter: Interpreter, requires: str, project: str) -> None:
    """Raise UnsupportedPython when ``requires`` (Requires-Python) or Etude itself excludes the interpreter."""
    if interpreter.release < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UnsupportedPython(
            f"snapshots run on Python {oldest} or later, not {interpreter.version}; pass --python {oldest}"
        )
    try:
        allowed = SpecifierSet(requires)
    except InvalidSpecifier:
        return
    if allowed.contains(interpreter.version, prereleases=True):
        return
    versions = {other.release: other.short for other in _interpreters() if allowed.contains(other.version)}
    remedy = f"pass --python {versions[max(versions)]}" if versions else f"install a Python {requires}"
    raise UnsupportedPython(f"{project} needs Python {requires}, the interpreter is {interpreter.version}; {remedy}")


def installed_prefix(interpreter: Interpreter, cache: Path) -> Path:
    """Return the folder that sandboxes show at the fixed prefix: the interpreter and its standard library alone.

    The host's own prefix cannot be shown: its site-packages can hold another copy of the package that a task removes.
    """
    if interpreter.in_base:
        return interpreter.prefix
    stamp = f"3|{interpreter.version}|{interpreter.executable}|{interpreter.executable.stat().st_mtime_ns}"
    name = f"{interpreter.version}-{hashlib.sha256(stamp.encode()).hexdigest()[:12]}"
    target = cache / "pythons" / name
    if target.is_dir():
        return target
    with file_lock(cache, f"python-{name}"):
        if not target.is_dir():
            with temporary_folder(cache) as staging:
                _copy_prefix(interpreter, staging / "python")
                target.parent.mkdir(parents=True, exist_ok=True)
                (staging / "python").rename(target)
    return target


def _copy_prefix(interpreter: Interpreter, target: Path) -> None:
    (target / "bin").mkdir(parents=True)
    shutil.copy2(interpreter.executable, target / "bin" / interpreter.executable.name)
    for alias in ("python3", "python", f"python{interpreter.short}"):
        if not (target / "bin" / alias).exists():
            (target / "bin" / alias).symlink_to(interpreter.executable.name)
    library = f"lib/python{interpreter.short}"
    shutil.copytree(
        interpreter.prefix / library, target / library, symlinks=True, ignore=_ignored, copy_function=_copy_file
    )
    support = Path(library, "test", "support")
    if (interpreter.prefix / support).is_dir():
        shutil.copytree(interpreter.prefix / support, target / support, copy_function=_copy_file)
        shutil.copy2(interpreter.prefix / library / "test" / "__init__.py", target / library / "test" / "__init__.py")
    for path in sorted((interpreter.prefix / "lib").glob("*.so*")):
        _copy_file(str(path), str(target / "lib" / path.name))
    header = Path("include", f"python{interpreter.short}", "pyconfig.h")
    if (interpreter.prefix / header).is_file():
        (target / header).parent.mkdir(parents=True)
        shutil.copy2(interpreter.prefix / header, target / header)
    normalise(target)


def _copy_file(origin: str, target: str) -> None:
    """Hard-link a file that has the fixed permissions already, which is much faster; copy any other."""
    status = os.lstat(origin)
    if stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) in (0o644, 0o755):
        with contextlib.suppress(OSError):  # another filesystem, or a file of another user
            os.link(origin, target)
            return
    shutil.copy2(origin, target, follow_symlinks=False)


def _ignored(folder: str, names: list[str]) -> set[str]:
    """Return the names not to copy; nested ``tests`` folders too, but no bytecode: it matches the sources' times."""
    del folder
    return {name for name in names if name in _EXCLUDED or name.endswith(_EXCLUDED_SUFFIXES)}
