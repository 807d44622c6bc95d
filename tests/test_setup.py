"""Set-up on a machine that lacks something: what is missing is named, with the command that gets it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TOOLS = ["bash", "env", "dirname", "cat", "sha256sum", "rm"]
Setup = Callable[..., subprocess.CompletedProcess[str]]


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def setup(root: Path, tmp_path: Path) -> Setup:
    """Runs setup.sh in a folder of its own, as a user who is not root, on a machine that has ``tools`` alone."""

    def run(*tools: str, **environment: str) -> subprocess.CompletedProcess[str]:
        for name in ("setup.sh", "pyproject.toml", "constraints.txt"):
            shutil.copy(root / name, tmp_path)
        path = tmp_path / "path"
        path.mkdir()
        script(path / "id", "echo 1000")
        for tool in (*TOOLS, *tools):
            found = sys.executable if tool == "python3" else shutil.which(tool)
            assert found, f"the tests need {tool}"
            script(path / tool, f'exec {found} "$@"')
        return subprocess.run(
            [shutil.which("bash") or "bash", str(tmp_path / "setup.sh")],
            env={"PATH": str(path), **environment},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    return run


def test_no_python(setup: Setup) -> None:
    done = setup()
    assert done.returncode == 1
    assert "no Python >= 3.11 found" in done.stderr
    assert "sudo apt-get install -y python3 python3-venv" in done.stderr


def test_a_python_that_was_asked_for_and_is_none(setup: Setup) -> None:
    done = setup("python3", ETUDE_PYTHON="/no/python")
    assert (done.returncode, "ETUDE_PYTHON=/no/python is not a Python" in done.stderr) == (1, True)


def test_no_git(setup: Setup) -> None:
    done = setup("python3")
    assert done.returncode == 1
    assert "git is missing. Run: sudo apt-get install -y git bubblewrap" in done.stderr


def test_no_bubblewrap_goes_on_and_says_so(setup: Setup, tmp_path: Path) -> None:
    script(tmp_path / "python", f'[ "$1 $2" != "-m venv" ] || exit 7\nexec {sys.executable} "$@"')
    done = setup("git", ETUDE_PYTHON=str(tmp_path / "python"))
    assert "bubblewrap is missing: going on with the strongest sandbox at hand, 'process'" in done.stderr
    assert "for the stronger one run: sudo apt-get install -y bubblewrap" in done.stderr
    assert done.returncode == 7, "it went on to make the virtual environment"


def test_a_python_that_cannot_make_virtual_environments(setup: Setup, tmp_path: Path) -> None:
    script(tmp_path / "python", f'case "$2" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"')
    done = setup("git", "bwrap", ETUDE_PYTHON=str(tmp_path / "python"))
    assert done.returncode == 1
    assert "sudo apt-get install -y python3." in done.stderr
    assert "-venv" in done.stderr


def test_what_ci_runs_is_executable_and_reads_no_input(root: Path) -> None:
    run = root / ".ci" / "run"
    assert os.stat(run).st_mode & stat.S_IXUSR
    text = run.read_text()
    assert "exec </dev/null" in text
    assert "export CI=true" in text
    assert text.index("make lint") < text.index("make test")


def test_make_has_its_targets(root: Path) -> None:
    for target in ("demo", "test", "test-slow", "lint", "clean"):
        done = subprocess.run(["make", "-n", target], cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
