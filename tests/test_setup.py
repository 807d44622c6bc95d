"""setup.sh: names what a machine lacks with the command that installs it, and installs nothing twice."""

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
    """Return a function that runs setup.sh in a separate folder, not as root, on a machine with only ``tools``."""

    def run(*tools: str, extras: str = "server,dev", **environment: str) -> subprocess.CompletedProcess[str]:
        for name in ("setup.sh", "pyproject.toml", "constraints.txt"):
            shutil.copy(root / name, tmp_path)
        path = tmp_path / "path"
        path.mkdir(exist_ok=True)
        script(path / "id", "echo 1000")
        for tool in (*TOOLS, *tools):
            program = sys.executable if tool == "python3" else shutil.which(tool)
            assert program, f"the tests need {tool}"
            script(path / tool, f'exec {program} "$@"')
        return subprocess.run(
            [shutil.which("bash") or "bash", str(tmp_path / "setup.sh"), extras],
            env={"PATH": str(path), **environment},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    return run


def test_setup_names_the_packages_when_python_is_missing(setup: Setup) -> None:
    done = setup()
    assert done.returncode == 1
    assert "no Python >= 3.11 found" in done.stderr
    assert "sudo apt-get install -y python3 python3-venv" in done.stderr


def test_setup_refuses_an_interpreter_that_does_not_run(setup: Setup) -> None:
    done = setup("python3", ETUDE_PYTHON="/no/python")
    assert (done.returncode, "ETUDE_PYTHON=/no/python is not a Python" in done.stderr) == (1, True)


def test_setup_names_the_packages_when_git_is_missing(setup: Setup) -> None:
    done = setup("python3")
    assert done.returncode == 1
    assert "git is missing. Run: sudo apt-get install -y git bubblewrap" in done.stderr


def test_setup_continues_with_a_warning_when_bubblewrap_is_missing(setup: Setup, tmp_path: Path) -> None:
    script(tmp_path / "python", f'[ "$1 $2" != "-m venv" ] || exit 7\nexec {sys.executable} "$@"')
    done = setup("git", ETUDE_PYTHON=str(tmp_path / "python"))
    assert "bubblewrap is missing; tasks run in the weaker sandbox 'process'" in done.stderr
    assert "For the stronger one run: sudo apt-get install -y bubblewrap" in done.stderr
    assert done.returncode == 7, "setup did not reach the virtual environment"


def test_setup_names_the_package_when_python_cannot_create_environments(setup: Setup, tmp_path: Path) -> None:
    script(tmp_path / "python", f'case "$2" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"')
    done = setup("git", "bwrap", ETUDE_PYTHON=str(tmp_path / "python"))
    assert done.returncode == 1
    assert "sudo apt-get install -y python3." in done.stderr
    assert "-venv" in done.stderr


def test_ci_script_is_executable_and_reads_no_input(root: Path) -> None:
    run = root / ".ci" / "run"
    assert os.stat(run).st_mode & stat.S_IXUSR
    text = run.read_text()
    assert "exec </dev/null" in text
    assert "export CI=true" in text
    assert text.index("make lint") < text.index("make test")


def test_makefile_has_its_targets(root: Path) -> None:
    for target in ("demo", "test", "test-slow", "lint", "clean"):
        done = subprocess.run(["make", "-n", target], cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_setup_installs_missing_extras_once(setup: Setup, tmp_path: Path) -> None:
    # A stand-in for Python: `python -m venv` creates an environment whose pip notes its arguments and makes `etude`.
    pip_log = tmp_path / "pip.log"
    pip = f'case "$*" in *"pip install"*) echo "$*" >>{pip_log}; touch .venv/bin/etude; chmod +x .venv/bin/etude;; esac'
    fake = tmp_path / "fake"
    script(fake, f'case "$*" in *"import torch"*) exit 1;; esac\n{pip}')
    create = f"mkdir -p .venv/bin; cp {fake} .venv/bin/python; exit 0"
    script(tmp_path / "python", f'case "$*" in *"-m venv"*) {create};; esac\nexec {sys.executable} "$@"')
    tools = ("git", "bwrap", "mkdir", "cp", "touch", "chmod")

    def installs(extras: str) -> list[str]:
        done = setup(*tools, extras=extras, ETUDE_PYTHON=str(tmp_path / "python"))
        assert done.returncode == 0, done.stderr
        return [line.rpartition(".[")[2].rstrip("]") for line in pip_log.read_text().splitlines()]

    assert installs("server,train") == ["server,train"]
    assert installs("server,train") == ["server,train"]
    assert installs("server") == ["server,train"]
    assert installs("server,dev") == ["server,train", "server,dev"]
    assert installs("server,dev,train") == ["server,train", "server,dev"]
