"""What a server process has on the machine while it runs, and what is left of it afterwards."""

from __future__ import annotations

import glob
import time
from pathlib import Path

from etude.environments.sandbox.kernel.linux import descendants, start_time

PATIENCE_S = 20.0
"""Seconds that the last keeper has to remove what is there."""


class Traces:
    """Processes, control groups, mounts and temporary files of one server.

    ``temporary`` is its folder of temporary files. ``seen`` are its processes so far, each with its start time, because
    ids of processes are used again.
    """

    def __init__(self, temporary: Path) -> None:
        self.temporary = temporary
        self.seen: set[tuple[int, str]] = set()
        self._mounts = _mounts()

    def look(self, pid: int) -> set[int]:
        """Note and return the ids of a process and of all below it."""
        pids = {pid, *descendants(pid)}
        self.seen |= {(pid, started) for pid in pids if (started := start_time(pid))}
        return pids

    def left(self) -> list[str]:
        """Return what is left of a server that has stopped, after waiting for a while that nothing is."""
        deadline = time.monotonic() + PATIENCE_S
        while (names := self._left()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return names

    def _left(self) -> list[str]:
        names = [f"process {pid}" for pid, started in self.seen if start_time(pid) == started and not _is_zombie(pid)]
        pids = {pid for pid, _ in self.seen}
        groups = glob.glob("/sys/fs/cgroup/**/etude-*", recursive=True)
        names += [f"control group {path}" for path in groups if int(Path(path).name.split("-")[1]) in pids]
        names += [f"mount {line}" for line in _mounts() - self._mounts if str(self.temporary) in line]
        names += [f"temporary file {path}" for path in self.temporary.iterdir()]
        return names


def _mounts() -> set[str]:
    return set(Path("/proc/self/mounts").read_text().splitlines())


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
