"""Program of the solution's process: compiled for this version of Python, as text for others."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from importlib.util import MAGIC_NUMBER

import pytest

from etude.environments.grading.out_of_process.processes.programs import worker_parts, worker_program
from etude.environments.snapshots.test_run.compiled_program import RUN_PROGRAM

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


def test_no_two_parts_define_the_same_name() -> None:
    """All parts run in one namespace: a later definition would replace an earlier one in silence."""
    names = Counter(name for part in worker_parts() for node in ast.parse(part).body for name in defined(node))
    assert [name for name, times in names.items() if times > 1] == []


def defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement at the top level of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name)}
