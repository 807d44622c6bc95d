"""The image of a task: a Dockerfile, and the layers of the task's Snapshot as archives that it adds to a base image.

The tree is at ``/testbed``, where SWE-bench and SWE-smith have it too; the environment is at its fixed path.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ....environments.sandbox import ENV_PREFIX, PYTHON_PREFIX
from ....environments.snapshots import Snapshot
from ....environments.tasks.task_trees import Materials
from ....errors import ExportError

TESTBED = "/testbed"
_DOCKERFILE = """\
FROM {base}
# The agent's tools need git and a shell; nothing else is installed.
RUN command -v git >/dev/null || (apt-get update && apt-get install --yes --no-install-recommends git \\
    && rm -rf /var/lib/apt/lists/*)
{python}ADD env.tar.gz /
ADD workspace.tar.gz /
{variables}WORKDIR {testbed}
RUN python -B -c "import sys, pytest; sys.exit(sys.version_info[:2] != {release})"
"""
# The path at which the environment expects its interpreter becomes a link to the image's own.
_LINKED = "RUN mkdir -p {folder} && ln -s \"$(python3 -c 'import sys; print(sys.base_prefix)')\" {prefix}\n"
_SYSTEM = 'RUN [ -x {inside} ] || ln -s "$(command -v python{short})" {inside}\n'


@dataclass(frozen=True)
class Interpreter:
    """Where the container's interpreter comes from: the ``base`` image, or with ``bundled`` the Snapshot."""

    base: str
    bundled: bool


def choose_interpreter(snapshot: Snapshot, options: Mapping[str, str]) -> Interpreter:
    """Return the interpreter that the options choose. Raises ExportError for one that is impossible."""
    base, choice = options["base_image"], options["python"] or ("bundle" if options["base_image"] else "image")
    if re.search(r"\s", base):
        raise ExportError(f"option base_image must be the name of an image, got {base!r}")
    if choice == "bundle" and snapshot.interpreter.in_base:
        raise ExportError(f"{snapshot.name} runs on the system's Python, which cannot be bundled; set python=image")
    return Interpreter(base or f"python:{snapshot.recipe.python}-slim-bookworm", choice == "bundle")


def dockerfile(snapshot: Snapshot, interpreter: Interpreter) -> str:
    """Return the Dockerfile; its last step fails the build when the image cannot run the Snapshot's environment."""
    inside = snapshot.interpreter
    linked = _LINKED.format(folder=os.path.dirname(PYTHON_PREFIX), prefix=PYTHON_PREFIX)
    system = _SYSTEM.format(inside=inside.inside, short=inside.short)
    python = "ADD python.tar.gz /\n" if interpreter.bundled else system if inside.in_base else linked
    return _DOCKERFILE.format(
        base=interpreter.base,
        python=python,
        testbed=TESTBED,
        release=inside.release[:2],
        variables="".join(f"ENV {name}={_quoted(value)}\n" for name, value in variables(snapshot, interpreter).items()),
    )


def variables(snapshot: Snapshot, interpreter: Interpreter) -> dict[str, str]:
    """Return the environment variables of commands in the container."""
    roots = [TESTBED if part == "." else f"{TESTBED}/{part}" for part in snapshot.verifier.python_path]
    path = f"{ENV_PREFIX}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    needs_library = snapshot.interpreter.shared and interpreter.bundled
    library = {"LD_LIBRARY_PATH": f"{PYTHON_PREFIX}/lib"} if needs_library else {}
    fixed = {"PATH": path, "PYTHONPATH": ":".join(roots), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**fixed, **library, **snapshot.recipe.env}


def write_layers(materials: Materials, interpreter: Interpreter, folder: Path, shared: dict[str, Path]) -> None:
    """Write the archives that the Dockerfile adds. ``shared`` has those of Snapshots that other tasks wrote before.

    They become hard links, so that a set has one copy of each environment. Raises ExportError.
    """
    snapshot = materials.snapshot
    layers = {"env": (snapshot.path / "env", ENV_PREFIX)}
    if interpreter.bundled:
        python = snapshot.layers(materials.agent_tree).binds[PYTHON_PREFIX]
        layers["python"] = (python, PYTHON_PREFIX)
    for name, (tree, prefix) in layers.items():
        path = folder / f"{name}.tar.gz"
        first = shared.setdefault(str(tree), path)
        if first == path:
            path.write_bytes(archive(tree, prefix))
        else:
            os.link(first, path)
    (folder / "workspace.tar.gz").write_bytes(archive(materials.agent_tree, TESTBED))


def archive(tree: Path, prefix: str) -> bytes:
    """Return the same ``.tar.gz`` for the same tree: its files below ``prefix``, owned by root, without times."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=6) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in (tree, *sorted(tree.rglob("*"))):
            _add(tar, path, (Path(prefix.lstrip("/")) / path.relative_to(tree)).as_posix())
    return packed.getvalue()


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    status, header = path.lstat(), tarfile.TarInfo(name)
    if stat.S_ISDIR(status.st_mode):
        header.type, header.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(header)
    elif stat.S_ISLNK(status.st_mode):
        header.type, header.linkname, header.mode = tarfile.SYMTYPE, os.readlink(path), 0o777
        tar.addfile(header)
    elif stat.S_ISREG(status.st_mode):
        header.size, header.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
        with path.open("rb") as source:
            tar.addfile(header, source)


def _quoted(value: str) -> str:
    """Return a value of a Dockerfile's ENV. Raises ExportError for a line break, which it cannot hold."""
    if "\n" in value:
        raise ExportError(f"an environment variable of the snapshot holds a line break: {value!r}; export another task")
    escaped = re.sub(r'(["\\$])', r"\\\1", value)
    return f'"{escaped}"'
