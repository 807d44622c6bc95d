"""Which Python a snapshot runs on: found by version or path, copied without anything installed in it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ....errors import UnsupportedPython
from ...sandbox import PYTHON_PREFIX
from ..store.cache import file_lock, temporary_folder

_PROBE = """
import json, os, sys, sysconfig
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3], "prefix": os.path.realpath(sys.base_prefix),
    "executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "platform": sysconfig.get_platform(), "implementation": sys.implementation.name,
    "shared": bool(sysconfig.get_config_var("Py_ENABLE_SHARED"))}))
"""
OLDEST = [3, 8]  # what the test harness is written for
# Not copied: installed packages above all, then what a sandbox never needs.
_LEFT_OUT = frozenset(
    "site-packages dist-packages test tests idlelib turtledemo ensurepip tkinter lib2to3 pkgconfig __phello__".split()
)
_BIG_SUFFIXES = (".a", ".o", ".exe")


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
        """``3.12``"""
        return ".".join(self.version.split(".")[:2])

    @property
    def in_base(self) -> bool:
        """Whether every sandbox's base layer already shows it."""
        return self.prefix == Path("/usr")

    @property
    def inside(self) -> str:
        """The executable's path in a sandbox."""
        return str(self.executable) if self.in_base else f"{PYTHON_PREFIX}/bin/{self.executable.name}"


@functools.lru_cache(maxsize=64)
def probe(executable: str) -> Interpreter | None:
    """Ask an interpreter who it is; None when it does not run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            [executable, "-I", "-S", "-c", _PROBE], capture_output=True, timeout=60, env=environment, check=True
        )
        told = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if told["implementation"] != "cpython":
        return None
    return Interpreter(**{**told, "prefix": Path(told["prefix"]), "executable": Path(told["executable"])})


def _candidates(version: str) -> Iterator[Path]:
    """Where Pythons live: this process, PATH, then the folders of pyenv and uv, newest first."""
    yield Path(sys.executable)
    for name in (f"python{'.'.join(version.split('.')[:2])}", "python3") if version else ("python3",):
        for folder in os.get_exec_path():
            yield Path(folder, name)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local/share/uv/python")
    for home in (pyenv, uv):
        if os.path.isdir(home):  # False, not an error, for another user's closed home
            folders = [path for path in home.iterdir() if version in path.name]
            yield from (path / "bin" / "python3" for path in sorted(folders, reverse=True))


def _matches(found: str, wanted: str) -> bool:
    return found == wanted or found.startswith(wanted + ".")


def find_interpreter(wanted: str | None = None) -> Interpreter:
    """The interpreter for ``3.12``, ``3.12.1`` or a path; the one running Etude for None.

    Raises UnsupportedPython naming what is needed and what was found.
    """
    if wanted and ("/" in wanted or not wanted[0].isdigit()):
        found = probe(wanted)
        if found is None:
            raise UnsupportedPython(
                f"{wanted} is not a CPython that runs: give a version (3.12) or an interpreter's path"
            )
        return found
    for path in _candidates(wanted or ""):
        if os.path.isfile(path) and (found := probe(str(path))) and (not wanted or _matches(found.version, wanted)):
            return found
    here = ", ".join(sorted({found.version for found in _all()}, key=_numeric)) or "none"
    raise UnsupportedPython(
        f"Python {wanted} is needed and not on PATH or under pyenv; found: {here}. Install it, or --python X.Y"
    )


def _all() -> Iterator[Interpreter]:
    versions = ["", *(f"3.{minor}" for minor in range(6, 20))]
    for path in {path for version in versions for path in _candidates(version) if os.path.isfile(path)}:
        if found := probe(str(path)):
            yield found


def _numeric(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def check_requires(interpreter: Interpreter, requires: str, project: str) -> None:
    """Raises UnsupportedPython when ``requires`` (Requires-Python) excludes the interpreter, or ours does."""
    if _numeric(interpreter.version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UnsupportedPython(
            f"snapshots run on Python {oldest} or later, not {interpreter.version}: pass --python {oldest}"
        )
    if not requires:
        return
    try:
        allowed = SpecifierSet(requires)
    except InvalidSpecifier:
        return
    if allowed.contains(interpreter.version, prereleases=True):
        return
    fitting = sorted({found.version for found in _all() if allowed.contains(found.version)}, key=_numeric)
    remedy = f"pass --python {'.'.join(fitting[-1].split('.')[:2])}" if fitting else f"install a Python {requires}"
    raise UnsupportedPython(f"{project} needs Python {requires}; the interpreter is {interpreter.version}: {remedy}")


def installed_prefix(interpreter: Interpreter, cache: Path) -> Path:
    """The folder that sandboxes show at the fixed prefix: the interpreter and its standard library, nothing installed.

    The host's own prefix will not do: its site-packages can hold another copy of the package that a task removes.
    """
    if interpreter.in_base:
        return interpreter.prefix
    stamp = f"2|{interpreter.version}|{interpreter.executable}|{interpreter.executable.stat().st_mtime_ns}"
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
    shutil.copytree(interpreter.prefix / library, target / library, symlinks=True, ignore=_ignored)
    support = Path(library, "test", "support")
    if (interpreter.prefix / support).is_dir():
        shutil.copytree(interpreter.prefix / support, target / support)
        shutil.copy2(interpreter.prefix / library / "test" / "__init__.py", target / library / "test" / "__init__.py")
    for path in sorted((interpreter.prefix / "lib").glob("*.so*")):
        shutil.copy2(path, target / "lib" / path.name, follow_symlinks=False)
    header = Path("include", f"python{interpreter.short}", "pyconfig.h")
    if (interpreter.prefix / header).is_file():
        (target / header).parent.mkdir(parents=True)
        shutil.copy2(interpreter.prefix / header, target / header)
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _ignored(folder: str, names: list[str]) -> set[str]:
    """Nested ``tests`` folders go too, but a module's own bytecode stays: it carries the sources' times."""
    del folder
    return {name for name in names if name in _LEFT_OUT or name.endswith(_BIG_SUFFIXES)}
