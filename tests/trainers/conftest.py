"""Shared by the tests of trainers: small models and tokenizers, importable by their names, and a served drill."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HELPERS = (
    "models_made_here",
    "tokenizers_made_here",
    "scripted_here",
    "solved_here",
    "unplayed_here",
    "formulas_here",
    "replays_here",
)


def _load(name: str) -> None:
    """pytest's importlib mode has no other way to share a module that tests need while they are collected."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


if importlib.util.find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)  # the same sums in the same order, on any machine
    for helper in HELPERS:
        _load(helper)


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
