"""A running server with two real tasks, a scripted policy, and verifiers in environments of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
SAMPLE = HERE.parents[1] / "data" / "scales"


def load(name: str, file: Path) -> ModuleType:
    """A module by its file, under a name of its own; pytest's importlib mode has no other way to share one."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def policy() -> ModuleType:
    return load("scripted_policy", HERE / "policy.py")


@pytest.fixture(scope="session")
def rollout(root: Path) -> ModuleType:
    """The adapter's conversions, which need no verifiers."""
    return load("adapter_rollout", root / "trainers/adapters/verifiers/etude_verifiers/rollout.py")


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from etude.generators.generate import generate

    out = tmp_path_factory.mktemp("tasks")
    generate([str(SAMPLE)], generators=["all"], count=2, seed=0, out=out)
    return out


@pytest.fixture(scope="session")
def server(tasks: Path) -> Iterator[str]:
    """The address of `etude serve` in a process of its own."""
    command = [sys.executable, "-m", "etude.server.app"]
    environment = {**os.environ, "ETUDE_TASKS": str(tasks), "PORT": "0", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving "), line
        yield line.removeprefix("serving ").strip()
        process.terminate()


@pytest.fixture(scope="session")
def environment_with(
    tmp_path_factory: pytest.TempPathFactory, checkout_in: Callable[[Path], Path]
) -> Callable[[str], Path]:
    """Makes the ``bin`` of a virtual environment with a version of verifiers, etude, and its adapter; no openenv."""
    made: dict[str, Path] = {}

    def make(version: str) -> Path:
        if version not in made:
            folder = tmp_path_factory.mktemp("venv")
            subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
            source = checkout_in(folder / "etude")
            wanted = [f"verifiers=={version}", "uv", source, source / "trainers/adapters/verifiers"]
            pip = [folder / "venv/bin/python", "-m", "pip", "install", "-q", *wanted]
            subprocess.run(pip, check=True, capture_output=True)
            made[version] = folder / "venv" / "bin"
        return made[version]

    return make
