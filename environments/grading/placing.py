"""Placing of an agent's accepted changes in a fresh sandbox."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from ...models import FileChange
from ..sandbox import Sandbox
from ..snapshots.test_run.placed_files import NotWritten, packed_files, write_files


async def put_in_place(
    sandbox: Sandbox, accepted: Sequence[FileChange], others: Mapping[str, bytes] | None = None
) -> tuple[str, int | None]:
    """Write the agent's files over the pristine tree, and the ``others`` over both.

    Returns why that failed and with which exit code, or ('', 0).
    """
    try:
        await write_files(sandbox, {**_contents(accepted), **(others or {})}, _executable(accepted))
    except NotWritten as error:
        return str(error), error.exit_code
    return "", 0


def packed_changes(accepted: Sequence[FileChange]) -> bytes:
    """Return the agent's files as WRITE_FILES reads them."""
    return packed_files(_contents(accepted), _executable(accepted))


def _contents(accepted: Sequence[FileChange]) -> dict[str, bytes | None]:
    graded = (change for change in accepted if change.kind in ("file", "deleted"))
    return {change.path: base64.b64decode(change.content or "") if change.kind == "file" else None for change in graded}


def _executable(accepted: Sequence[FileChange]) -> set[str]:
    return {change.path for change in accepted if change.kind == "file" and change.executable}
