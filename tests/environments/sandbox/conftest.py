"""Shared parts: a small workspace, and how to run code as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

import etude
from etude.environments.sandbox import Layers
from etude.environments.sandbox.conformance.suite import make_layers

ORDINARY_UID = 64321


@pytest.fixture
def layers() -> Iterator[Layers]:
    """Not below pytest's own folder, which is closed to the sandbox user."""
    with tempfile.TemporaryDirectory(prefix="etude-layers-") as folder:
        yield make_layers(Path(folder))


@dataclass(frozen=True)
class OrdinaryUser:
    """Runs Python code with etude's sandboxes as somebody who is not root."""

    python: str
    path: str

    def run(self, *arguments: str, wrapper: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        identity = {} if os.geteuid() else {"user": ORDINARY_UID, "group": ORDINARY_UID, "extra_groups": []}
        return subprocess.run(
            [*wrapper, self.python, "-B", *arguments],
            env={"PYTHONPATH": self.path, "PATH": "/usr/bin:/bin"},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            **({} if wrapper else identity),
        )


@pytest.fixture(scope="session")
def ordinary_user() -> Iterator[OrdinaryUser]:
    """A copy of what the sandboxes need where every user can read it: a checkout may lie below a closed home."""
    with tempfile.TemporaryDirectory(prefix="etude-as-user-") as folder:
        root = Path(folder)
        checkout = Path(etude.__file__).parent
        names = [
            "__init__.py",
            "models.py",
            "errors.py",
            "registry.py",
            "environments/__init__.py",
            "environments/sandbox",
        ]
        for name in names:
            _copy(checkout / name, root / "etude" / name)
        for module in ("pydantic", "pydantic_core", "annotated_types", "typing_inspection", "typing_extensions"):
            origin = Path(str(find_spec(module).origin))  # type: ignore[union-attr]
            _copy(origin.parent if origin.name == "__init__.py" else origin, root / _name(origin))
        root.chmod(0o755)
        yield OrdinaryUser(_python(), str(root))


def _name(origin: Path) -> str:
    return origin.parent.name if origin.name == "__init__.py" else origin.name


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _python() -> str:
    """An interpreter of this version that an ordinary user may run."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    candidates = [os.path.realpath(sys.executable), *(f"{d}/{version}" for d in ("/usr/bin", "/usr/local/bin"))]
    for candidate in map(Path, candidates):
        if candidate.exists() and all(part.stat().st_mode & 0o001 for part in (candidate, *candidate.parents)):
            return str(candidate)
    pytest.fail(f"no {version} that an ordinary user may run: apt-get install {version}")
