"""An agent's accepted changes in a fresh sandbox, and how a killed process is recognised there."""

from __future__ import annotations

import base64
import signal
from collections.abc import Sequence

from ...models import FileChange
from ..sandbox import WORKSPACE, Sandbox

KILLED = frozenset(128 + number for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT))
"""Exit codes of a process that another one ended."""
# Deletions first, then the bits that a plain write does not carry; paths come NUL-separated on stdin.
_REMOVE = "xargs -0 -r rm -f --"
_MAKE_EXECUTABLE = "xargs -0 -r chmod a+x --"


async def put_in_place(sandbox: Sandbox, accepted: Sequence[FileChange]) -> tuple[str, int | None]:
    """Put the agent's files over the pristine tree; return why that failed and with which exit code, or ('', 0)."""
    deleted = [change.path for change in accepted if change.kind == "deleted"]
    executable = [change.path for change in accepted if change.kind == "file" and change.executable]
    if deleted:
        result = await sandbox.exec(_REMOVE, stdin="\0".join(deleted).encode())
        if result.exit_code != 0:
            return "the agent's deletions could not be applied", result.exit_code
    for change in accepted:
        if change.kind == "file":
            try:
                await sandbox.write(f"{WORKSPACE}/{change.path}", base64.b64decode(change.content or ""))
            except OSError as error:
                return f"cannot write {change.path}: {error.strerror or error}", 0
    if executable:
        result = await sandbox.exec(_MAKE_EXECUTABLE, stdin="\0".join(executable).encode())
        if result.exit_code != 0:
            return "the agent's executable files could not be marked", result.exit_code
    return "", 0
