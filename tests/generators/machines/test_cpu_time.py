"""CPU time is that of this process and of all its descendants, running or ended."""

from __future__ import annotations

import subprocess
import sys

from etude.generators.machines.cpu_time import cpu_seconds

BUSY = "import time\nwhile time.process_time() < 0.5: pass\n"


def test_time_of_a_child_counts_when_it_has_ended():
    before = cpu_seconds()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    assert 0.4 < cpu_seconds() - before < 5


def test_time_of_a_grandchild_counts_while_it_runs():
    before = cpu_seconds()
    waiting = BUSY + "print(1, flush=True); input()"
    code = f"import sys, subprocess; subprocess.run([sys.executable, '-c', {waiting!r}])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert 0.4 < cpu_seconds() - before < 5
        child.communicate(b"\n")
