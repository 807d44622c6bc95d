"""Virtual environments with another project's tool, made by uv from the package index."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from helpers.paths import ROOT

from etude.environments.snapshots.builder.interpreter import find_interpreter

CONSTRAINTS = ROOT / "constraints.txt"
# What an index of this day may not have yet, without which a tool's metadata cannot be met.
OVERRIDES = "certifi\n"


def make_environment(
    folder: Path,
    requirements: Sequence[str | Path],
    python: str = "3.11",
    *,
    torch: bool = False,
    without_requirements: Sequence[str] = (),
) -> Path:
    """Return the ``bin`` folder of a new environment that holds the requirements.

    ``torch``: install the tested version first, with pip, whose configuration chooses the build on this machine.
    ``without_requirements``: packages that are installed without what they require.
    """
    uv = [sys.executable, "-m", "uv"]
    executable = find_interpreter(python).executable
    overrides = folder / "overrides.txt"
    overrides.write_text(OVERRIDES)
    programs = folder / "venv" / "bin"
    subprocess.run([*uv, "venv", "-q", "--python", executable, folder / "venv"], check=True)
    install = [*uv, "pip", "install", "-q", "--python", programs / "python"]
    steps = [[*install, "--override", overrides, *requirements]]
    if torch:
        pinned = next(line for line in CONSTRAINTS.read_text().splitlines() if line.startswith("torch=="))
        steps.insert(0, [sys.executable, "-m", "pip", "--python", programs / "python", "install", "-q", pinned])
    if without_requirements:
        steps.append([*install, "--no-deps", *without_requirements])
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return programs


def run(command: Sequence[str | Path], cwd: Path, **variables: str) -> str:
    """Return what a command prints in an environment without this test run's Python settings; it must succeed."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**ours, "HF_HUB_OFFLINE": "1", "HF_HOME": str(cwd / "hf"), **variables}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout
