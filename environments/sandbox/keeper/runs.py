"""The commands that the keeper runs: started, timed, killed and reaped. Stdlib only, single-threaded."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..kernel import linux
from ..kernel.cgroups import Group
from ..kernel.cpu_limits import CpuLimits
from .driver import Driver

_TERM_GRACE_S = 5.0
_STATUS_BYTES = 65536


class Loop:
    """An event loop: descriptors and what to call when they can be read."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.unwatch = self._selector.unregister

    def watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, handler)

    def turn(self, timeout_s: float) -> None:
        """Wait for events, at most so long, and handle them."""
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            # A handler may have dropped a later descriptor of this batch.
            if key.fd in self._selector.get_map():
                key.data()


@dataclass(eq=False)
class Run:
    """One running command: its monitor, and everything that must be dead before its end is reported."""

    pid: int
    """The monitor's pid."""
    status: int
    """The reading end of the monitor's status pipe."""
    group: Group | None
    """The sandbox's control group."""
    on_end: Callable[[dict[str, Any]], None]
    """Called with the report when everything is dead."""
    started: float
    """When it was started, in monotonic seconds."""
    deadline: float
    """When it must be over, in monotonic seconds."""
    oom_before: int
    """How many processes of the group had been killed for want of memory."""
    cpu_before: float | None
    """CPU seconds that the group had used; None when they are not counted there."""
    cpu_limits: CpuLimits | None = None
    """Limits to check, while there are any."""
    reaped_cpu: float = 0.0
    """CPU seconds of the processes that the keeper waited for, and of their children."""
    highest_cpu: float = 0.0
    """The most CPU seconds found at once: a killed PID namespace does not report those of its processes."""
    waiting: set[int] = field(default_factory=set)
    """Processes that must end."""
    timed_out: bool = False
    killed: bool = False
    report: dict[str, Any] = field(default_factory=dict)
    """What the monitor wrote to its status pipe."""

    def next_event(self) -> float:
        """Return when the run must be looked at again, in monotonic seconds."""
        return self.deadline if self.cpu_limits is None else min(self.deadline, self.cpu_limits.next_check)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds used so far: the control group's, else those of the processes."""
        used = self.group.cpu_seconds() if self.group is not None else None
        if used is not None and self.cpu_before is not None:
            return used - self.cpu_before
        self.highest_cpu = max(self.highest_cpu, self.reaped_cpu + sum(map(linux.cpu_seconds_below, self.waiting)))
        return self.highest_cpu


class Runs:
    """All running commands of a keeper."""

    def __init__(self, loop: Loop, driver: Driver, closer_pid: int) -> None:
        self._loop = loop
        self._driver = driver
        self._closer_pid = closer_pid
        self._runs: set[Run] = set()
        self._processes: dict[int, tuple[int, Run]] = {}

    def __bool__(self) -> bool:
        return bool(self._runs)

    def start(
        self,
        state: Any,
        group: Group | None,
        request: dict[str, Any],
        descriptors: dict[str, int],
        cores: float,
        on_end: Callable[[dict[str, Any]], None],
    ) -> Run:
        """Start a command; ``on_end`` gets the report. Raises OSError."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        started = time.monotonic()
        oom = group.oom_kills() if group is not None else 0
        cpu = group.cpu_seconds() if group is not None else None
        try:
            pid = self._driver.start(state, group, request, descriptors, writer)
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        run = Run(pid, reader, group, on_end, started, started + request["timeout_s"], oom, cpu)
        if request["cpu_s"] is not None or request["idle_s"] is not None:
            run.cpu_limits = CpuLimits(request["cpu_s"], request["idle_s"], cores, run.cpu_seconds, started)
        self._runs.add(run)
        self._wait_for(pid, run)
        return run

    def enforce_limits(self) -> float:
        """Stop what is over its limits; return the seconds until the next look."""
        now = time.monotonic()
        for run in list(self._runs):
            if run.deadline <= now and run.killed:
                # It was asked to stop and did not.
                os.kill(run.pid, signal.SIGKILL)
                run.deadline = float("inf")
            elif run.deadline <= now or (run.cpu_limits and run.next_event() <= now and run.cpu_limits.exceeded(now)):
                run.timed_out = True
                self.kill(run)
        return min((run.next_event() for run in self._runs), default=float("inf")) - time.monotonic()

    def kill(self, run: Run) -> None:
        """Ask the monitor to end everything; idempotent."""
        if run.killed:
            return
        run.killed = True
        run.cpu_limits = None
        run.cpu_seconds()  # the last look at processes whose times are lost when they are killed
        if run.pid in run.waiting:
            os.kill(run.pid, self._driver.kill_signal)
        run.deadline = time.monotonic() + _TERM_GRACE_S if run.pid in run.waiting else float("inf")

    def _wait_for(self, pid: int, run: Run) -> None:
        pidfd = os.pidfd_open(pid)
        run.waiting.add(pid)
        self._processes[pid] = (pidfd, run)
        self._loop.watch(pidfd, self._reap)

    def _reap(self) -> None:
        """Collect every dead child; a run is over when all that it waits for are dead."""
        while True:
            try:
                pid, _, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._driver.helpers.discard(pid)
            if pid in self._processes:
                pidfd, run = self._processes.pop(pid)
                self._loop.unwatch(pidfd)
                os.close(pidfd)
                run.waiting.discard(pid)
                run.reaped_cpu += usage.ru_utime + usage.ru_stime
                if pid == run.pid:
                    self._on_monitor_end(run)
                if not run.waiting:
                    self._on_end(run)

    def _on_monitor_end(self, run: Run) -> None:
        """Kill what the monitor left: it may end before what it watched, which is the keeper's child by then."""
        run.cpu_limits = None
        try:
            text = os.read(run.status, _STATUS_BYTES)
        except BlockingIOError:
            text = b""
        os.close(run.status)
        for line in text.splitlines():
            run.report.update(json.loads(line))
        orphans: set[int] = set()
        inner = run.report.get("child-pid")
        if inner is not None:
            orphans = {inner} if self._is_live_child(inner, run) else set()
        elif not {"exit-code", "refused", "failed"} & run.report.keys():
            orphans = linux.descendants(os.getpid(), {*self._processes, self._closer_pid, *self._driver.helpers})
        for pid in orphans:
            try:
                os.kill(pid, signal.SIGKILL)
                self._wait_for(pid, run)
            except ProcessLookupError:
                continue

    def _is_live_child(self, pid: int, run: Run) -> bool:
        """Return whether ``pid`` is a live child of the keeper; a dead one is reaped and its CPU time counted."""
        try:
            dead, _, usage = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            return False
        run.reaped_cpu += usage.ru_utime + usage.ru_stime
        return dead == 0

    def _on_end(self, run: Run) -> None:
        self._runs.discard(run)
        oom = run.group is not None and run.group.oom_kills() > run.oom_before
        times = {"seconds": time.monotonic() - run.started, "cpu_seconds": run.cpu_seconds()}
        run.on_end({**run.report, "timed_out": run.timed_out, "oom": oom, **times})
