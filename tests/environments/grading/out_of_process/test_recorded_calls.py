"""The program of a solution's process: compiled for this Python, as text for others."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import MAGIC_NUMBER

import pytest

from etude.environments.grading.out_of_process.recorded_calls import RUN_PROGRAM, worker_program

SHOW = b"import sys; sys.stdout.write(repr(sys.stdin.buffer.read()) + type(SolutionValues).__name__)"
"""What follows a program whose last part would serve; it sees the names of the parts and the rest of the input."""


@pytest.mark.parametrize("magic", [MAGIC_NUMBER, b"\x00\x00\r\n"])
def test_the_program_runs_and_leaves_the_rest_of_the_input(magic: bytes) -> None:
    head, newline, body = worker_program().partition(b"\n")
    _, *sizes = head.split()
    program = b" ".join([magic.hex().encode(), *sizes]) + newline + body
    command = [sys.executable, "-S", "-c", f"__name__ = 'side'\n{RUN_PROGRAM}\n{SHOW.decode()}"]
    result = subprocess.run(command, input=program + b"the job", capture_output=True, check=True)
    assert result.stdout == b"b'the job'type"
