"""Fixture of the asynchronous tests: drills whose tool has a verb that only a hint tells."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def verbs_url() -> Iterator[str]:
    """Yield the address of a server with drills of the family "verbs" of level 1."""
    options = ["--knob", 'families=["verbs"]', "--knob", "level=1"]
    command = [sys.executable, "-u", "-m", "etude.cli", "serve", "--env", "drill", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving "), line
        yield line.removeprefix("serving ").strip()
        process.terminate()
