"""What is read from a writable layer is what the command saw, whatever marks it leaves there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from etude.environments.sandbox import Layers, open_sandbox
from etude.environments.sandbox.conformance.checking import SMALL

MARK = """
import os
for name in ("user.overlay.opaque", "user.overlay.whiteout", "trusted.overlay.opaque"):
    try:
        os.setxattr("kept", name, b"y")
        os.setxattr(".", name, b"y")
    except OSError:
        pass
"""


def test_a_mark_that_the_kernel_ignores_deletes_nothing(layers: Layers) -> None:
    async def run() -> tuple[list[str], list[str]]:
        sandbox = await open_sandbox(layers, SMALL, "bubblewrap")
        try:
            await sandbox.exec(["python3", "-c", MARK])
            await sandbox.write("new", b"")
            listed = (await sandbox.exec("ls -A")).output.decode().split()
            return listed, [f"{change.kind} {change.path}" for change in await sandbox.changes()]
        finally:
            await sandbox.close()

    listed, changed = asyncio.run(run())
    assert set(listed) == {path.name for path in Path(layers.workspace).iterdir()} | {"new"}
    assert changed == ["file new"]
