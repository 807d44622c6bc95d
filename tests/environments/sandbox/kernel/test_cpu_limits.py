"""Limits on CPU time, by a clock and a counter that the test moves; and the CPU time that /proc shows."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from etude.environments.sandbox.kernel import linux
from etude.environments.sandbox.kernel.cpu_limits import CpuLimits

BURN = "import time\nwhile time.process_time() < 0.3: pass"


class Command:
    """A command whose use of the CPU over time is given in advance."""

    def __init__(self, cpu_s: float | None, idle_s: float | None, cores: float = 1.0) -> None:
        self.now = 100.0
        self.used = 0.0
        self.checks = 0
        self.limits = CpuLimits(cpu_s, idle_s, cores, lambda: self.used, self.now)

    def run(self, seconds: float, share: float) -> float | None:
        """Run for ``seconds`` at ``share`` of a core; return the seconds after which a limit was exceeded."""
        started, used = self.now, self.used
        while self.limits.next_check <= started + seconds:
            self.now = self.limits.next_check
            self.used = used + (self.now - started) * share
            self.checks += 1
            if self.limits.exceeded(self.now):
                return self.now - started
        self.now, self.used = started + seconds, used + seconds * share
        return None


def test_cpu_limit_stops_a_busy_command_at_the_limit_with_few_checks() -> None:
    command = Command(cpu_s=10.0, idle_s=None)
    assert command.run(60, share=1.0) == pytest.approx(10.0)
    assert command.checks <= 2


def test_cpu_limit_stops_a_slow_command_when_it_has_used_the_limit() -> None:
    command = Command(cpu_s=10.0, idle_s=None)
    stopped = command.run(1000, share=0.25)
    assert stopped is not None and 40.0 <= stopped < 41.0
    assert command.checks < 40


def test_cpu_limit_lets_a_command_finish_below_the_limit() -> None:
    assert Command(cpu_s=10.0, idle_s=None).run(1000, share=0.009) is None


def test_cpu_limit_stops_a_parallel_command_near_the_limit() -> None:
    stopped = Command(cpu_s=10.0, idle_s=None, cores=16.0).run(60, share=16.0)
    assert stopped is not None and 10 / 16 <= stopped < 10 / 16 + 0.1


def test_idle_limit_stops_a_sleeping_command_after_the_window() -> None:
    stopped = Command(cpu_s=None, idle_s=4.0).run(60, share=0.0)
    assert stopped is not None and 4.0 <= stopped <= 5.0


def test_idle_limit_stops_a_command_that_falls_asleep() -> None:
    command = Command(cpu_s=None, idle_s=4.0)
    assert command.run(7.5, share=1.0) is None
    stopped = command.run(60, share=0.0)
    assert stopped is not None and 4.0 <= stopped <= 5.5


@pytest.mark.parametrize("share", [1.0, 0.02])
def test_idle_limit_leaves_a_working_command_alone(share: float) -> None:
    assert Command(cpu_s=None, idle_s=4.0).run(600, share=share) is None


def test_a_counter_that_falls_back_does_not_count_twice() -> None:
    command = Command(cpu_s=10.0, idle_s=None)
    assert command.run(9.0, share=1.0) is None
    command.used = 5.0
    command.limits.exceeded(command.now)
    assert command.run(4.0, share=1.0) is None


@pytest.mark.parametrize("listed", [True, False])
def test_cpu_seconds_below_counts_live_and_reaped_descendants(listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not listed:
        exists = os.path.exists
        monkeypatch.setattr(os.path, "exists", lambda path: "children" not in str(path) and exists(path))
    script = (
        f"import subprocess, sys\nburn = {BURN!r}\nsubprocess.run([sys.executable, '-c', burn])\n"
        "live = subprocess.Popen([sys.executable, '-c', burn + '\\nprint(1, flush=True)\\ninput()'], "
        "stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "live.stdout.readline()\nprint(1, flush=True)\ninput()"
    )
    before = linux.cpu_seconds_below(os.getpid())
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        used = linux.cpu_seconds_below(os.getpid()) - before
        child.kill()
    assert 0.5 <= used < 5
