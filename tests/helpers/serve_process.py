"""``etude serve`` as a process on 127.0.0.1."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class ServeProcess:
    """A running server: its process, its address and the file of its stderr."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    @property
    def resident_bytes(self) -> int:
        """Return the memory that the process holds."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def etude_serve(*options: str, **environment: str) -> Iterator[ServeProcess]:
    """Run ``etude serve`` with these options on a free port until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr"
        with log.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "etude.cli", "serve", "--port", "0", *options],
                env={**os.environ, "ETUDE_STORE": "none", **environment},
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
            assert process.stdout is not None
            try:
                line = process.stdout.readline()
                assert line.startswith("serving http://"), line + log.read_text()
                yield ServeProcess(process, line.split()[1], log)
            finally:
                process.terminate()
                try:
                    process.wait(60)
                finally:
                    process.kill()
                    process.wait()
                    process.stdout.close()
