"""The uv command: run it with the user's package index configuration, and quote what went wrong."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

import uv

from ....errors import SnapshotError
from ..log_text import last_lines
from .uv_settings import uv_environment

TIMEOUT_S = 900.0
_NOISE = re.compile(r"(Building wheel|hint:|warning:|\[std(out|err)\]|error: Failed to build|.*build backend returned)")


@dataclass(frozen=True)
class UvResult:
    """Outcome of one uv command: whether it succeeded, its standard error, its standard output."""

    ok: bool
    log: str
    output: str = ""

    def error_text(self) -> str:
        """Return why the command failed, on one line: the resolver's explanation, else the end of the log."""
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        lines = [line.removeprefix("cause: ") for line in lines if not _NOISE.match(line.removeprefix("cause: "))]
        reasons = next((number for number, line in enumerate(lines) if line.startswith("Because ")), None)
        if reasons is None:
            return last_lines("\n".join(lines), 6)
        text = " ".join(lines[reasons:])
        return text.replace(", we can conclude that your requirements are unsatisfiable", "").rstrip(".")


def run_uv(*arguments: str, environment: Mapping[str, str] | None = None) -> UvResult:
    """Run uv with the user's package index configuration; a failing command is a result, not an exception.

    Raises SnapshotError when uv itself is missing.
    """
    try:
        executable = uv.find_uv_bin()
    except FileNotFoundError as error:
        raise SnapshotError("uv's executable is missing; run: pip install --force-reinstall uv") from error
    try:
        process = subprocess.run(
            [executable, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=uv_environment(environment),
            timeout=TIMEOUT_S,
            check=False,
            cwd="/",  # no project is discovered there
        )
    except subprocess.TimeoutExpired as error:
        log = (error.stderr or b"").decode("utf-8", "replace")
        return UvResult(False, f"{log}\nuv did not finish within {TIMEOUT_S:.0f} s")
    log, output = (stream.decode("utf-8", "replace") for stream in (process.stderr, process.stdout))
    return UvResult(process.returncode == 0, log, output)
