"""Fixtures of the trainer tests: served drills, and one thread for torch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import pytest

if importlib.util.find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)  # so that sums have the same order on any machine


def _serve(*options: str) -> Iterator[str]:
    command = [sys.executable, "-u", "-m", "etude.cli", "serve", "--env", "drill", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving "), line
        yield line.removeprefix("serving ").strip()
        process.terminate()


@pytest.fixture(scope="session")
def drills_url() -> Iterator[str]:
    """Yield the address of `etude serve --env drill` with drills of every family."""
    yield from _serve()


@pytest.fixture(scope="session")
def drill_url() -> Iterator[str]:
    """Yield the address of a server with choose drills of level 1."""
    yield from _serve("--knob", 'families=["choose"]', "--knob", "level=1")
