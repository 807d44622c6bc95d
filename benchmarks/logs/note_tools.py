"""The two tools of the logs in this folder, as plain functions."""

from __future__ import annotations

import subprocess
from pathlib import Path


def shell(command: str) -> str:
    """Run a command.

    Args:
        command: The command.
    """
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return f"{done.stdout}{done.stderr}\nexit code: {done.returncode}"


def read_text(path: str) -> str:
    """Read a file.

    Args:
        path: The file.
    """
    return Path(path).read_text()
