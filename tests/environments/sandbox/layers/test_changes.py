"""Changes are those that the command saw, whatever marks of an overlay it leaves in its layer."""

from __future__ import annotations

from pathlib import Path

from helpers.sandboxes import in_sandbox

from etude.environments.sandbox import Layers, Sandbox
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
    async def mark(sandbox: Sandbox) -> tuple[list[str], list[str]]:
        await sandbox.exec(["python3", "-c", MARK])
        await sandbox.write("new", b"")
        listed = (await sandbox.exec("ls -A")).output.decode().split()
        return listed, [f"{change.kind} {change.path}" for change in await sandbox.changes()]

    listed, changed = in_sandbox(layers, mark, SMALL, "bubblewrap")
    assert set(listed) == {path.name for path in Path(layers.workspace).iterdir()} | {"new"}
    assert changed == ["file new"]
