"""Virtual environments with another project's tool, made by uv from the package index."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from etude.environments.snapshots.builder.interpreter import find_interpreter

# What an index of this day may not have yet, without which a tool's metadata cannot be met.
OVERRIDES = "certifi\n"


def make_environment(folder: Path, requirements: Sequence[str], python: str = "3.11") -> Path:
    """Return the ``bin`` folder of a new environment that holds the requirements."""
    uv = [sys.executable, "-m", "uv"]
    executable = find_interpreter(python).executable
    overrides = folder / "overrides.txt"
    overrides.write_text(OVERRIDES)
    subprocess.run([*uv, "venv", "-q", "--python", executable, folder / "venv"], check=True)
    install = ["pip", "install", "-q", "--python", folder / "venv/bin/python", "--override", overrides, *requirements]
    done = subprocess.run([*uv, *install], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "venv" / "bin"


def run(command: Sequence[str | Path], cwd: Path, **variables: str) -> str:
    """Return what a command prints in an environment without this test run's Python settings; it must succeed."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**ours, "HF_HUB_OFFLINE": "1", "HF_HOME": str(cwd / "hf"), **variables}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout
