"""The command line: ``etude COMMAND``.

Read ``app`` first: it names every command. ``commands/`` holds their functions, one module for each group; ``options``
the options that several commands share; ``console`` and ``progress`` what is printed; ``demo/`` the guided tour of
``etude demo``.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (default: that of the process) and return its exit code."""
    from .app import main as run

    return run(arguments)
