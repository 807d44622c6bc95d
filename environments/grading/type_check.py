"""The component ``types``: mypy finds no error in the files that a task has annotated.

mypy executes nothing of the agent. It runs in a sandbox with the Snapshot's interpreter, from
a copy of the installed mypy that is mounted read-only. It reads no configuration file, so neither options nor plugins
of the agent apply, and no installed package: what is not in the workspace has the type Any.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import GraderError, SandboxError
from ...models import FileChange
from ..sandbox import WORKSPACE, Layers, Limits, open_sandbox
from ..snapshots.store.cache import cache_folder, file_lock, temporary_folder
from .placing import put_in_place

COMPONENT = "types"
PREFIX = "/opt/etude/mypy"
MISSING = "mypy is not installed; run `pip install 'etude[types]'`"
STRICTNESS = ("--disallow-untyped-defs", "--disallow-incomplete-defs", "--check-untyped-defs")
"""The options that a task's statement names."""
_OPTIONS = (
    *("--config-file=", "--cache-dir=/dev/null", "--no-incremental", "--no-site-packages", "--ignore-missing-imports"),
    *("--follow-imports=silent", "--namespace-packages", "--explicit-package-bases", "--no-color-output"),
    *("--no-pretty", "--no-error-summary", "--hide-error-context", "--show-error-codes", *STRICTNESS),
)
_CANNOT_RUN = 77
_PROGRAM = f"""
import os, sys
os.environ["MYPYPATH"] = sys.argv.pop(1)
sys.path.insert(0, sys.argv.pop(1))
try:
    from mypy.main import main
except ImportError as error:
    print(error)
    sys.exit({_CANNOT_RUN})
main(clean_exit=True)
"""
_SECONDS = 120.0


def is_available() -> bool:
    """Return whether mypy is installed beside Etude."""
    try:
        importlib.metadata.distribution("mypy")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


async def type_errors(
    layers: Layers,
    accepted: Sequence[FileChange],
    paths: Sequence[str],
    python_path: Sequence[str],
    backend: str = "auto",
    limits: Limits = Limits(),
) -> dict[str, str]:
    """Return the first error of each file of ``paths`` that has one, with the ``accepted`` files over the tree.

    Raises GraderError where mypy is missing or does not fit the Snapshot's Python, SandboxError when the sandbox fails.
    """
    checker = {PREFIX: checker_folder()}
    shown = replace(layers, binds={**layers.binds, **checker}, unmapped={**layers.unmapped, **checker})
    roots = ":".join(dict.fromkeys(os.path.normpath(f"{WORKSPACE}/{part}") for part in [*python_path, "."]))
    command = ["python", "-I", "-S", "-c", _PROGRAM, roots, PREFIX, *_OPTIONS, "--", *paths]
    sandbox = await open_sandbox(shown, limits, backend)
    try:
        problem, _ = await put_in_place(sandbox, accepted)
        if problem:
            return dict.fromkeys(paths, problem)
        result = await sandbox.exec(command, timeout_s=10 * _SECONDS, cpu_s=_SECONDS, idle_s=_SECONDS)
    finally:
        await sandbox.close()
    text = result.output.decode("utf-8", "replace")
    if result.exit_code == _CANNOT_RUN:
        raise GraderError(f"the installed mypy cannot run in the task's Python: {text.strip()[:200]}")
    if result.killed:
        raise SandboxError("the type checker was killed")
    if result.exit_code == 0:
        return {}
    return _first_errors(text, paths) or dict.fromkeys(paths, text.strip()[-200:] or "mypy did not end")


def _first_errors(text: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the first error of each file in what mypy printed."""
    errors: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"(.+?):(\d+): error: (.*)", line)
        if match and match[1] in paths:
            errors.setdefault(match[1], f"line {match[2]}: {match[3]}"[:300])
    return errors


def checker_folder() -> Path:
    """Return a read-only copy of mypy and what it needs, in the cache. Raises GraderError where it is not installed."""
    if not is_available():
        raise GraderError(MISSING)
    cache = cache_folder()
    version = importlib.metadata.version("mypy")
    target = cache / "mypy" / f"{version}-{sys.implementation.cache_tag}"
    if not target.is_dir():
        with file_lock(cache, "mypy"), temporary_folder(cache) as staging:
            if not target.is_dir():
                for source, relative in _files().items():
                    (staging / "mypy" / relative).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, staging / "mypy" / relative)
                target.parent.mkdir(exist_ok=True)
                os.replace(staging / "mypy", target)
    return target


def _files() -> Mapping[Path, str]:
    """Return the files of mypy and of the distributions that it needs, with their places below one folder."""
    files: dict[Path, str] = {}
    waiting, visited = ["mypy"], set()
    while waiting:
        name = waiting.pop()
        if name in visited:
            continue
        visited.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # needed by another version of Python
        requirements = [item for item in distribution.requires or [] if "extra ==" not in item]
        waiting += [re.split(r"[^\w.-]", item, maxsplit=1)[0] for item in requirements]
        for file in distribution.files or []:
            source = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and file.suffix != ".pyc" and source.is_file():
                files[source] = str(file)
    return files
