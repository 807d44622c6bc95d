"""Limits that hold for a whole sandbox: one control group each, version 1 or 2, where this process may write.

Stdlib only, Python 3.8: the containers' worker reads its counters with it.

Groups are named ``etude-PID-STARTTIME-N`` after the keeper that made them, so a later keeper removes what a killed one
left behind.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .linux import maker_is_gone, own_prefix

_CONTROLLERS = ("memory", "pids", "cpu")
# Only version 1 has it as a separate controller; without it the CPU time is read from /proc.
_OPTIONAL = ("cpuacct",)
_CPU_PERIOD_US = 100_000
_RETRY_S = 0.05
# bubblewrap's own two processes (or the guard) count too.
_OWN_PROCESSES = 2


@dataclass
class Group:
    """One sandbox's group: a folder per version-1 controller, or one folder in version 2."""

    folders: dict[str, Path]
    version: int
    entrances: list[int] = field(default_factory=list)

    def enter(self) -> None:
        """Move the calling process in. Called between fork and exec."""
        for fd in self.entrances:
            os.write(fd, b"0")

    def oom_kills(self) -> int:
        """Return how many processes the kernel killed here for want of memory."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        lines = _read(self.folders["memory"] / name).splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def killed_together(self) -> bool:
        """Return whether the kernel kills everything here at once for want of memory, as kubelets ask it to."""
        return self.version == 2 and _read(self.folders["memory"] / "memory.oom.group").strip() == "1"

    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds used by everything that ever ran in the group, or None when it does not count them."""
        if self.version == 2:
            name, unit, text = "usage_usec", 1e-6, _read(self.folders["cpu"] / "cpu.stat")
        elif "cpuacct" in self.folders:
            name, unit, text = "", 1e-9, _read(self.folders["cpuacct"] / "cpuacct.usage")
        else:
            return None
        values = [line.split()[-1] for line in text.splitlines() if line.startswith(name)]
        return int(values[0]) * unit if values else None

    def kill(self) -> None:
        """Kill whatever is still inside."""
        for pid in map(int, _read(self.folders["pids"] / "cgroup.procs").split()):
            try:
                # A process of a foreign PID namespace reads as 0, which kill(2) would take for this process's group.
                if pid > 0:
                    os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def remove(self) -> bool:
        """Delete the group; return False while the kernel still counts a process in it."""
        for fd in self.entrances:
            os.close(fd)
        self.entrances.clear()
        removed = [_remove(folder) for folder in set(self.folders.values())]
        return all(removed)


class Groups:
    """The folders where this keeper may make groups; ``version`` is 0 when it may not, and rlimits are used."""

    def __init__(self) -> None:
        self.version, self._bases = _find_bases()
        self._prefix = own_prefix()
        self._count = 0
        self.stale: list[Group] = []
        """The groups of keepers that are gone, which the kernel could not delete yet."""
        if self.version:
            self.stale = _stale_groups(self.version, self._bases)
            if not self._usable():
                self.version = 0

    def create(self, limits: Mapping[str, float]) -> Group | None:
        """Return a group with these limits (``memory`` bytes, ``processes``, ``cpus``), or None without groups."""
        if not self.version:
            return None
        self._count += 1
        folders = {name: base / f"{self._prefix}{self._count}" for name, base in self._bases.items()}
        for folder in set(folders.values()):
            folder.mkdir(exist_ok=True)
        group = Group(folders, self.version)
        for name, value in self._settings(limits).items():
            path = folders[name.partition(".")[0]] / name
            if path.exists():
                path.write_text(value)
        group.entrances = [os.open(f / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for f in set(folders.values())]
        return group

    def _settings(self, limits: Mapping[str, float]) -> dict[str, str]:
        memory, processes = str(int(limits["memory"])), str(int(limits["processes"]) + _OWN_PROCESSES)
        quota = str(max(1000, int(limits["cpus"] * _CPU_PERIOD_US)))
        if self.version == 2:
            cpu = {"cpu.max": f"{quota} {_CPU_PERIOD_US}"}
            return {"memory.max": memory, "memory.swap.max": "0", "pids.max": processes, **cpu}
        cpu = {"cpu.cfs_period_us": str(_CPU_PERIOD_US), "cpu.cfs_quota_us": quota}
        # Memory plus swap may not be below memory, so it comes second.
        bytes_limits = {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory}
        return {**bytes_limits, "pids.max": processes, **cpu}

    def _usable(self) -> bool:
        """Return whether a child can really be moved into a group made here."""
        group = None
        try:
            group = self.create({"memory": 1 << 28, "processes": 8, "cpus": 1.0})
            pid = os.fork()
            if pid == 0:
                try:
                    assert group is not None
                    group.enter()
                    os._exit(0)
                finally:
                    os._exit(1)
            return os.waitpid(pid, 0)[1] == 0
        except OSError:
            return False
        finally:
            if group is not None:
                group.remove()


def remove_stale(patience_s: float = 2.0) -> list[str]:
    """Remove the groups of keepers that are gone; return the names of the removed ones."""
    version, bases = _find_bases()
    names: set[str] = set()
    give_up = time.monotonic() + patience_s
    while version and _stale_groups(version, bases, names) and time.monotonic() < give_up:
        time.sleep(_RETRY_S)
    return sorted(names)


def _stale_groups(version: int, bases: Mapping[str, Path], visited: set[str] | None = None) -> list[Group]:
    """Kill and remove the groups of keepers that are gone; return those that are still there.

    The names of all are added to ``visited``.
    """
    stale = []
    for name, base in bases.items():
        for folder in base.glob("etude-*-*-*"):
            if maker_is_gone(folder.name):
                group = Group({"pids": folder, name: folder}, version)
                group.kill()
                if not group.remove():
                    stale.append(group)
                if visited is not None:
                    visited.add(folder.name)
    return stale


def _find_bases() -> tuple[int, dict[str, Path]]:
    """Return the version to use and, per controller, this process's group; version 0 when a controller is missing."""
    group_paths = {}
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        group_paths.update(dict.fromkeys(controllers.split(","), path))
    bases: dict[str, Path] = {}
    unified: Path | None = None
    for line in _read(Path("/proc/self/mountinfo")).splitlines():
        mounted, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        root, point = mounted.split(" ")[3:5]
        if kind == "cgroup2" and "" in group_paths:
            unified = _own_folder(point, root, group_paths[""])
        elif kind == "cgroup":
            for name in set(options.split(" ")[-1].split(",")) & {*_CONTROLLERS, *_OPTIONAL} & set(group_paths):
                bases[name] = _own_folder(point, root, group_paths[name])
    if bases.keys() >= set(_CONTROLLERS):
        return 1, bases
    if unified is not None:
        # A group that holds processes may have no limited children: then a group above, if this user may write it.
        for folder in (unified, *unified.parents):
            if (folder / "cgroup.procs").exists() and _delegate(folder):
                return 2, dict.fromkeys(_CONTROLLERS, folder)
    return 0, {}


def _own_folder(point: str, root: str, path: str) -> Path:
    # A container shows its group at the mount point, while /proc may still name the path from the host's root.
    inside = os.path.relpath(path, root) if root != "/" and path.startswith(root) else path.lstrip("/")
    folder = Path(point, inside)
    return folder if folder.is_dir() else Path(point)


def _delegate(folder: Path) -> bool:
    """Return whether children of this version-2 group have the controllers, turned on here if the kernel lets us."""
    control = folder / "cgroup.subtree_control"
    missing = set(_CONTROLLERS) - set(_read(control).split())
    if missing:
        try:
            control.write_text(" ".join(f"+{name}" for name in sorted(missing)))
        except OSError:
            return False
    return os.access(folder, os.W_OK)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _remove(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
