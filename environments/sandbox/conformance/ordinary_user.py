"""Running code with Etude's sandboxes as a user who is not root."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ....errors import SandboxError

_UID = 64321
_TIMEOUT_S = 300
# What the sandboxes need of Etude and of others; a checkout, or an interpreter, may lie below a closed home.
_NEEDED = ("__init__.py", "models.py", "errors.py", "registry.py", "environments/__init__.py", "environments/sandbox")
_MODULES = ("pydantic", "pydantic_core", "annotated_types", "typing_inspection", "typing_extensions")


@dataclass(frozen=True)
class OrdinaryUser:
    """An interpreter that every user may run, and a folder that every user may read with all that sandboxes import."""

    python: str
    path: str

    def run(self, arguments: Sequence[str], wrapper: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run Python with these arguments; root becomes an ordinary user, unless a ``wrapper`` command does that."""
        drops_root = os.geteuid() == 0 and not wrapper
        identity: dict[str, Any] = {"user": _UID, "group": _UID, "extra_groups": []} if drops_root else {}
        return subprocess.run(
            [*wrapper, self.python, "-B", *arguments],
            env={"PYTHONPATH": self.path, "PATH": "/usr/bin:/bin"},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            **identity,
        )


@contextlib.contextmanager
def ordinary_user() -> Iterator[OrdinaryUser]:
    """Copy what the sandboxes need to where every user can read it. Raises SandboxError where that is impossible."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    candidates = [os.path.realpath(sys.executable), f"/usr/bin/{version}", f"/usr/local/bin/{version}"]
    usable = [path for path in candidates if os.path.exists(path) and _is_open_to_all(Path(path))]
    if not usable:
        raise SandboxError(f"no {version} that an ordinary user may run; apt-get install {version}")
    with tempfile.TemporaryDirectory(prefix="etude-as-user-") as folder:
        package = (__package__ or "").partition(".")[0]
        root = Path(__file__).parents[3]
        for name in _NEEDED:
            _copy(root / name, Path(folder, package, name))
        for module in _MODULES:
            _copy_module(module, Path(folder))
        Path(folder).chmod(0o755)
        yield OrdinaryUser(usable[0], folder)


def _is_open_to_all(path: Path) -> bool:
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


def _copy_module(module: str, folder: Path) -> None:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise SandboxError(f"{module} is not installed; install Etude with its dependencies")
    origin = Path(spec.origin)
    source = origin.parent if origin.name == "__init__.py" else origin
    _copy(source, folder / source.name)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)
