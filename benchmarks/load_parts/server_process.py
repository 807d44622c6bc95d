"""A real ``etude serve`` as a process: its memory, its processes, and what it leaves on the machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from etude.benchmarks.server_traces import Traces

STOP_S = 120.0


@dataclass
class ServerProcess:
    """A running server."""

    process: subprocess.Popen[str]
    url: str
    traces: Traces

    def server_mib(self) -> float:
        """Return the resident memory of the processes that play sessions, in MiB: the server or its workers."""
        workers = [pid for pid in self.processes() if _text(pid, "comm").startswith("etude worker")]
        return sum(_rss_kib(pid) for pid in workers or [self.process.pid]) / 1024

    def processes(self) -> set[int]:
        """Return the ids of the server and of the processes below it."""
        return self.traces.look(self.process.pid)


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
        traces = Traces(temporary)
        environment = {**os.environ, "TMPDIR": str(temporary)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.startswith("serving "):
                raise SystemExit("the server did not start; its reason is above")
            yield ServerProcess(process, line.split()[1], traces)
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            process.kill()
            process.wait()


def machine_ticks() -> tuple[int, int]:
    """Return the clock ticks that this machine's cores have worked, and all of their ticks."""
    ticks = [int(number) for number in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


def _rss_kib(pid: int) -> int:
    return _field(_text(pid, "status"), "VmRSS:")


def _field(text: str, name: str) -> int:
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(name)), 0)
