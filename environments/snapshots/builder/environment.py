"""The installed half of a snapshot: dependencies in a virtual environment whose every path is the sandbox's own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from ....errors import DependencyFailed
from ...sandbox import ENV_PREFIX, PYTHON_PREFIX
from ..project.metadata import Project, write_files
from ..project.pytest_config import UNWANTED_PLUGINS
from ..store.cache import file_lock
from ..store.trees import link_tree
from .interpreter import Interpreter
from .pip import PipResult, clean_environment, install_locked, make_head

_SCRIPT = """#!{python}
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({call}())
"""


def site_packages(environment: Path, interpreter: Interpreter) -> Path:
    return environment / "lib" / f"python{interpreter.short}" / "site-packages"


def install(environment: Path, interpreter: Interpreter, lines: Iterable[str], folder: Path) -> PipResult:
    """A new virtual environment at ``environment`` with exactly ``lines`` in it, still with this machine's paths."""
    if environment.exists():
        shutil.rmtree(environment)
    make_head(environment, str(interpreter.executable), interpreter)
    result = install_locked(environment / "bin" / "python", list(lines), folder)
    # What an installed package records about this machine, or about where it came from.
    for name in ("direct_url.json", "REQUESTED"):
        for path in site_packages(environment, interpreter).glob(f"*.dist-info/{name}"):
            path.unlink()
    return result


def add_project(environment: Path, interpreter: Interpreter, project: Project) -> None:
    """The package's metadata and console scripts, without its code: the tree is the only copy."""
    packages = site_packages(environment, interpreter)
    own = canonicalize_name(project.name)
    for path in packages.glob("*.dist-info"):
        if canonicalize_name(path.name.partition("-")[0]) == own:
            shutil.rmtree(path)
    write_files(packages, project.dist_info)
    for name, target in project.scripts.items():
        module, _, call = re.sub(r"\[.*\]", "", target).strip().partition(":")
        if not call or "/" in name:
            continue
        script = environment / "bin" / name
        text = _SCRIPT.format(
            python=environment / "bin" / "python",
            module=module.strip(),
            first=call.split(".")[0].strip(),
            call=call.strip(),
        )
        script.write_text(text, "utf-8")
        script.chmod(0o755)


def finish(environment: Path, interpreter: Interpreter) -> None:
    """Compile, then move every path to the fixed prefix; the folder works only inside a sandbox afterwards."""
    # Dependencies need bytecode: compiling them at first import repeats their SyntaxWarnings, which strict suites
    # turn into errors. Hash-based files stay valid whatever the files' times become.
    subprocess.run(
        [
            str(interpreter.executable),
            "-I",
            "-m",
            "compileall",
            "-q",
            "-j",
            "0",
            "--invalidation-mode",
            "unchecked-hash",
        ]
        + ["-s", str(environment), "-p", ENV_PREFIX, str(environment / "lib")],
        capture_output=True,
        env=clean_environment(),
        check=False,  # files for other Pythons do not compile, and are never imported
    )
    make_head(environment, interpreter.inside, interpreter)
    _rewrite(environment / "bin", str(environment), ENV_PREFIX)
    for folder, names, files in os.walk(environment):
        for name in [*names, *files]:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    environment.chmod(0o755)


def _rewrite(folder: Path, old: str, new: str) -> None:
    """Replace a prefix in the scripts of ``folder``: in their first lines, and wherever they repeat it."""
    for path in folder.iterdir():
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        if os.fsencode(old) in data and b"\0" not in data:
            data = data.replace(os.fsencode(old), os.fsencode(new))
            path.write_bytes(
                re.sub(rb"\A#!/bin/sh\n'''exec' \"?([^ \"]+)\"? \"\$0\" \"\$@\"\n' '''\n", rb"#!\1\n", data)
            )


def unmapped_head(snapshot: Path, cache: Path, interpreter: Interpreter, python: Path) -> Path:
    """The same environment for backends without mounts: real paths in its scripts, ``lib`` hard-linked.

    Made again when the cache has moved, since it holds the cache's own path.
    """
    head, environment = snapshot / "env-unmapped", snapshot / "env"
    executable = interpreter.executable if interpreter.in_base else python / "bin" / interpreter.executable.name
    stamp = f"{head}\n{executable}\n"
    marker = snapshot / "env-unmapped.path"
    if head.is_dir() and marker.is_file() and marker.read_text("utf-8") == stamp:
        return head
    with file_lock(cache, f"head-{snapshot.name[:32]}"):
        staging = snapshot / f"env-unmapped.{os.getpid()}"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        link_tree(environment / "lib", staging / "lib")  # no symlink: only this folder is shown to the sandbox
        make_head(staging, str(executable), interpreter)
        for path in (environment / "bin").iterdir():
            if not path.is_symlink():
                shutil.copy2(path, staging / "bin" / path.name)
        _rewrite(staging / "bin", ENV_PREFIX, str(head))
        shutil.rmtree(head, ignore_errors=True)
        staging.rename(head)
        marker.write_text(stamp, "utf-8")
    return head


def variables(interpreter: Interpreter) -> dict[str, str]:
    """What the interpreter needs in its environment at the fixed paths."""
    # Its own search path for libpython is the host's prefix, which no sandbox shows.
    needs_library = interpreter.shared and not interpreter.in_base
    library = {"LD_LIBRARY_PATH": f"{PYTHON_PREFIX}/lib"} if needs_library else {}
    return {**library, "PYTHONDONTWRITEBYTECODE": "1"}


def _installed(environment: Path, interpreter: Interpreter) -> list[Distribution]:
    found = distributions(path=[str(site_packages(environment, interpreter))])
    return sorted(found, key=lambda item: canonicalize_name(item.metadata["Name"]))


def pytest_plugins(environment: Path, interpreter: Interpreter, named: Iterable[str] = ()) -> list[str]:
    """Entry-point names of the installed pytest plugins that a measured run loads, and plugins named in ``-p``."""
    found: dict[str, None] = {}
    for item in _installed(environment, interpreter):
        if canonicalize_name(item.metadata["Name"]) in UNWANTED_PLUGINS:
            continue
        found.update((point.name, None) for point in item.entry_points if point.group == "pytest11")
    modules = {point.value: point.name for item in _installed(environment, interpreter) for point in item.entry_points}
    unwanted = {name.replace("-", "_") for name in UNWANTED_PLUGINS} | {"xdist", "cov", "randomly", "pytest_cov.plugin"}
    found.update(
        (modules.get(name, name), None) for name in named if name.split(".")[0] not in unwanted and name != "pytester"
    )
    if "pytester" in named:
        found["pytester"] = None
    return list(found)


def require(result: PipResult, what: str) -> None:
    """Raises DependencyFailed with the end of pip's log when an installation failed."""
    if not result.ok:
        raise DependencyFailed(f"{what} cannot be installed: {result.errors()}")
