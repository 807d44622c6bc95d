"""The command line: ``etude COMMAND``.

Read ``app`` first: it names every command. ``commands/`` holds their functions, one module for each group; ``options``
the options that several commands share; ``console`` and ``progress`` what is printed; ``demo/`` the guided tour of
``etude demo``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (default: that of the process) and return its exit code."""
    try:
        from .app import main as run

        return run(arguments)
    except KeyboardInterrupt:  # Ctrl-C before the command has started
        print("error: Interrupted. Run the same command again to start over.", file=sys.stderr)
        return 130
