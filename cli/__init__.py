"""The command line: ``etude COMMAND``. ``app`` holds the commands; nothing is imported before it is needed."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (default: that of the process) and return its exit code."""
    from .app import main as run

    return run(arguments)
