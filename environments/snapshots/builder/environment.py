"""The installed half of a snapshot: dependencies in a virtual environment whose every path is the sandbox's own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from configparser import ConfigParser
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from ...sandbox import ENV_PREFIX, PYTHON_PREFIX
from ..project.metadata import Project, write_files
from ..project.pytest_config import UNWANTED_PLUGINS
from ..store.cache import file_lock
from ..store.trees import link_tree, normalise, remove
from .interpreter import Interpreter
from .packages import install_locked
from .uv_command import UvResult, clean_environment

PYTHON_VARIABLES = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "LANG": "C.UTF-8",
    "COLUMNS": "100",
}
"""Variables of every process in a snapshot: the agent's own and those of a grade, so that code sees no difference."""
_SCRIPT = """#!{python}
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({call}())
"""
# Files in which an installer records this machine, or the origin of a package.
_HOST_RECORDS = (
    "*.dist-info/direct_url.json",
    "*.dist-info/REQUESTED",
    "*.dist-info/uv_*.json",
    "__editable__*",
    "*.egg-link",
)


def site_packages(environment: Path, interpreter: Interpreter) -> Path:
    """Return the folder of installed packages."""
    return environment / "lib" / f"python{interpreter.short}" / "site-packages"


def make_head(folder: Path, executable: str, interpreter: Interpreter) -> None:
    """Write a virtual environment's outer parts: ``pyvenv.cfg``, links in ``bin`` to ``executable``, ``lib``."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    if not (folder / "lib").is_symlink():
        site_packages(folder, interpreter).mkdir(parents=True, exist_ok=True)
    home = os.path.dirname(executable)
    config = f"home = {home}\ninclude-system-site-packages = false\nversion = {interpreter.version}\n"
    (folder / "pyvenv.cfg").write_text(config)
    for name, target in (("python", executable), ("python3", "python"), (f"python{interpreter.short}", "python")):
        link = folder / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def install(
    environment: Path, interpreter: Interpreter, lines: Sequence[str], folder: Path, as_of: str = ""
) -> UvResult:
    """Make a new virtual environment that holds exactly ``lines``, still with this machine's paths."""
    remove(environment)
    make_head(environment, str(interpreter.executable), interpreter)
    return install_locked(environment / "bin" / "python", lines, folder, as_of)


def add_project(environment: Path, interpreter: Interpreter, project: Project) -> None:
    """Add the project's metadata and console scripts, without its code: the tree is the only copy."""
    packages = site_packages(environment, interpreter)
    name = canonicalize_name(project.name)
    for path in packages.glob("*.dist-info"):
        if canonicalize_name(path.name.partition("-")[0]) == name:
            shutil.rmtree(path)
    write_files(packages, project.dist_info)
    for script_name, target in project.scripts.items():
        module, _, call = re.sub(r"\[.*\]", "", target).strip().partition(":")
        if not call or "/" in script_name:
            continue
        script = environment / "bin" / script_name
        python, first = environment / "bin" / "python", call.split(".")[0].strip()
        text = _SCRIPT.format(python=python, module=module.strip(), first=first, call=call.strip())
        script.write_text(text, "utf-8")
        script.chmod(0o755)


def finish(environment: Path, interpreter: Interpreter) -> None:
    """Compile, then move every path to the fixed prefix; the folder works only inside a sandbox afterwards."""
    for pattern in _HOST_RECORDS:
        for path in site_packages(environment, interpreter).glob(pattern):
            remove(path)
    # Dependencies need bytecode: compiling them at first import repeats their SyntaxWarnings, which strict suites
    # turn into errors. Hash-based files stay valid whatever the files' times become.
    compile_all = ["-I", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    subprocess.run(
        [str(interpreter.executable), *compile_all, "-s", str(environment), "-p", ENV_PREFIX, str(environment / "lib")],
        capture_output=True,
        env=clean_environment(),
        check=False,  # files for other Pythons do not compile, and are never imported
    )
    make_head(environment, interpreter.inside, interpreter)
    _rewrite(environment / "bin", str(environment), ENV_PREFIX)
    normalise(environment)


def _rewrite(folder: Path, old: str, new: str) -> None:
    """Replace a prefix in the scripts of ``folder``: in their first lines, and wherever they repeat it."""
    for path in folder.iterdir():
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        if os.fsencode(old) in data and b"\0" not in data:
            data = data.replace(os.fsencode(old), os.fsencode(new))
            # A path too long for a first line is started through the shell; the fixed prefix is short enough.
            path.write_bytes(
                re.sub(rb"\A#!/bin/sh\n'''exec' [\"']?([^ \"']+)[\"']? \"\$0\" \"\$@\"\n' '''\n", rb"#!\1\n", data)
            )


def unmapped_head(snapshot: Path, cache: Path, interpreter: Interpreter, python: Path) -> Path:
    """Return the same environment for backends without mounts: real paths in its scripts, ``lib`` hard-linked.

    It contains the cache's own path, so it is made again after the cache has moved.
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
    """Return the environment variables that the interpreter needs at the fixed paths."""
    # Its own search path for libpython is the host's prefix, which no sandbox shows.
    needs_library = interpreter.shared and not interpreter.in_base
    library = {"LD_LIBRARY_PATH": f"{PYTHON_PREFIX}/lib"} if needs_library else {}
    return {**library, **PYTHON_VARIABLES}


def own_plugins(project: Project) -> set[str]:
    """Return the names of the pytest plugins that a project itself provides, and of their modules.

    A measured run loads plugins before the code under test is importable, which must not decide outcomes.
    """
    parser = ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    for path, data in project.dist_info.items():
        if path.endswith("/entry_points.txt"):
            parser.read_string(data.decode("utf-8", "replace"))
    points = parser["pytest11"].items() if parser.has_section("pytest11") else ()
    return {name for point in points for name in point}


def pytest_plugins(environment: Path, interpreter: Interpreter, named: Iterable[str] = ()) -> list[str]:
    """Return the pytest plugins that a measured run loads: installed entry points, and those named with ``-p``."""
    items = distributions(path=[str(site_packages(environment, interpreter))])
    installed = sorted(items, key=lambda item: canonicalize_name(item.metadata["Name"]))
    plugins: dict[str, None] = {}
    for item in installed:
        if canonicalize_name(item.metadata["Name"]) not in UNWANTED_PLUGINS:
            plugins.update((point.name, None) for point in item.entry_points if point.group == "pytest11")
    modules = {point.value: point.name for item in installed for point in item.entry_points}
    unwanted = {name.replace("-", "_") for name in UNWANTED_PLUGINS} | {"xdist", "cov", "randomly", "pytest_cov.plugin"}
    plugins.update(
        (modules.get(name, name), None) for name in named if name.split(".")[0] not in unwanted and name != "pytester"
    )
    if "pytester" in named:
        plugins["pytester"] = None
    return list(plugins)
