"""A user's shell inside a sandbox: each line is one separate command, as for an agent.

The working folder lasts from line to line; variables, functions and background jobs do not, since everything a command
started is dead when it returns. It has no terminal: full-screen programs do not work.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from .protocol import WORKSPACE, Sandbox

_LINE = 'eval "$ETUDE_LINE"; code=$?; pwd >&$ETUDE_CHANNEL; exit $code'


async def converse(sandbox: Sandbox, lines: Iterator[str]) -> int:
    """Run the lines one by one and print their output; return the last exit code."""
    folder, code = WORKSPACE, 0
    for line in lines:
        if line.strip() == "exit":
            break
        if not line.strip():
            continue
        result = await sandbox.exec(_LINE, env={"ETUDE_LINE": line}, cwd=folder, channel=True)
        sys.stdout.write(result.output.decode("utf-8", "replace"))
        if result.dropped:
            print(f"\n[{result.dropped} bytes left out]")
        sys.stdout.flush()
        code = 124 if result.exit_code is None else result.exit_code
        if result.exit_code is None:
            print("[timed out]", file=sys.stderr)
        elif code:
            print(f"[exit code {code}]", file=sys.stderr)
        folder = result.channel.decode("utf-8", "surrogateescape").rstrip("\n").rpartition("\n")[2] or folder
    return code


def typed_lines() -> Iterator[str]:
    """Yield what is typed, with a prompt on a terminal, until the end of input."""
    prompt = "sandbox$ " if sys.stdin.isatty() else ""
    while True:
        try:
            yield input(prompt)
        except EOFError:
            return
