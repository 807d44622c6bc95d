"""A real ``etude serve`` as a process: its memory, its processes, and what it leaves on the machine."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

STOP_S = 120.0


@dataclass
class ServerProcess:
    """A running server with a folder of its own for temporary files."""

    process: subprocess.Popen[str]
    url: str
    folder: Path
    """Temporary folder of the server and its sandboxes."""
    mounts: list[str]
    """Mounts of Etude before the start."""
    ever: set[int] = field(default_factory=set)
    """Ids of all processes that were seen below it."""

    def server_mib(self) -> float:
        """Return the resident memory of the processes that play sessions, in MiB: the server or its workers."""
        workers = [pid for pid in self.processes() if _text(pid, "comm").startswith("etude worker")]
        return sum(_rss_kib(pid) for pid in workers or [self.process.pid]) / 1024

    def processes(self) -> set[int]:
        """Return the ids of the server and of the processes below it."""
        children: dict[int, list[int]] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            fields = _text(int(folder.name), "stat").rpartition(")")[2].split()
            if fields:
                children.setdefault(int(fields[1]), []).append(int(folder.name))
        below, waiting = set(), [self.process.pid]
        while waiting:
            pid = waiting.pop()
            below.add(pid)
            waiting += children.get(pid, [])
        self.ever |= below
        return below

    def leftovers(self) -> dict[str, int]:
        """Return how many processes, mounts, control groups and files are left, for a server that has stopped."""
        deadline = time.monotonic() + 10.0  # the last keeper removes what is there
        while True:
            patterns = [f"/sys/fs/cgroup/**/etude-{pid}-*" for pid in self.ever]
            left = {
                "processes": sum(_runs(pid) for pid in self.ever),
                "mounts": len(set(etude_mounts()) - set(self.mounts)),
                "control groups": sum(len(glob.glob(pattern, recursive=True)) for pattern in patterns),
                "temporary files": len(list(self.folder.iterdir())),
            }
            if not any(left.values()) or time.monotonic() > deadline:
                return left
            time.sleep(0.2)


@contextlib.contextmanager
def serving(tasks: Path, sessions: int, workers: int) -> Iterator[ServerProcess]:
    """Serve tasks until the end of the block, then stop the server with SIGTERM."""
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        temporary = Path(folder) / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        Path(folder).chmod(0o755)
        store = Path(folder) / "episodes.sqlite"
        command = [sys.executable, "-m", "etude.cli", "serve", str(tasks), "--port", "0", "--store", str(store)]
        command += ["--max-sessions", str(sessions), "--workers", str(workers)]
        mounts = etude_mounts()
        environment = {**os.environ, "TMPDIR": str(temporary)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.startswith("serving "):
                raise SystemExit("the server did not start; its reason is above")
            yield ServerProcess(process, line.split()[1], temporary, mounts)
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            process.kill()
            process.wait()


def etude_mounts() -> list[str]:
    """Return the mounts of Etude that this process sees."""
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if "etude" in line]


def machine_ticks() -> tuple[int, int]:
    """Return the clock ticks that this machine's cores have worked, and all of their ticks."""
    ticks = [int(number) for number in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _runs(pid: int) -> bool:
    """Return whether a process that was seen runs; a zombie does not."""
    state = _text(pid, "stat").rpartition(")")[2].split()
    return bool(state) and state[0] not in "ZX"


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


def _rss_kib(pid: int) -> int:
    return _field(_text(pid, "status"), "VmRSS:")


def _field(text: str, name: str) -> int:
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(name)), 0)
