"""CPU time of this process and of everything that it started, sandboxes included."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _FIRST_TIME, _LAST_TIME = 1, 11, 15
"""Fields of ``/proc/PID/stat`` behind the name: the parent, and user and system time of a process and its children."""


def cpu_seconds() -> float:
    """Return the CPU time of this process and its descendants, those included that ended and were waited for.

    Containers of an engine such as Docker are not descendants and not counted.
    """
    parents: dict[int, int] = {}
    times: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            fields = (folder / "stat").read_text("ascii", errors="replace").rpartition(") ")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parents[int(folder.name)] = int(fields[_PARENT])
        times[int(folder.name)] = sum(map(int, fields[_FIRST_TIME:_LAST_TIME]))
    return sum(ticks for pid, ticks in times.items() if _descends(pid, parents)) / _TICKS


def _descends(pid: int, parents: dict[int, int]) -> bool:
    """Return whether a process is this one or a descendant of it."""
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()
