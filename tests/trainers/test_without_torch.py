"""Collection of the test suite where torch is not installed, as in continuous integration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
HIDDEN = ("torch", "transformers", "trl", "accelerate", "datasets")
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in HIDDEN else find_spec(name, *more)
"""


@pytest.mark.slow
def test_suite_is_collected_without_torch(root: Path, tmp_path: Path) -> None:
    (tmp_path / "hide_torch.py").write_text(PLUGIN)
    command = [sys.executable, "-m", "pytest", "-p", "hide_torch", "--collect-only", "-q", "-m", "slow or not slow"]
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-2000:]
    assert "trainers/replay/test_pairs.py" in result.stdout
    assert "trainers/integrations/packages" in result.stdout
    assert "trainers/grpo/" not in result.stdout
