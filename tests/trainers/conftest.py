"""Shared by the tests of trainers: small models and tokenizers, importable by their names, and a served drill."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import pytest

if importlib.util.find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)  # the same sums in the same order, on any machine


def _served(*options: str) -> Iterator[str]:
    command = [sys.executable, "-u", "-m", "etude.cli", "serve", "--env", "drill", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving "), line
        yield line.removeprefix("serving ").strip()
        process.terminate()


@pytest.fixture(scope="session")
def drills_url() -> Iterator[str]:
    """`etude serve --env drill` in a process of its own: drills of every family."""
    yield from _served()


@pytest.fixture(scope="session")
def drill_url() -> Iterator[str]:
    """The same: choose drills of level 1."""
    yield from _served("--knob", 'families=["choose"]', "--knob", "level=1")
