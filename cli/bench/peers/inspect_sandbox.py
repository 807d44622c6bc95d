"""Sandbox of inspect_ai under the clock: ``local``, commands of this machine in a temporary folder."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from clock import main
from inspect_ai.util._sandbox.local import LocalSandboxEnvironment


class InspectSandbox:
    """One sandbox, made as an evaluation makes it for a sample."""

    def __init__(self, kind: str) -> None:
        self._sandboxes: dict[str, Any] = {}

    async def start(self, tree: Path) -> None:
        self._sandboxes = await LocalSandboxEnvironment.sample_init("bench", None, {})
        folder = Path(self._sandboxes["default"].directory.name)
        await asyncio.to_thread(shutil.copytree, tree, folder, symlinks=True, dirs_exist_ok=True)

    async def run(self, command: str) -> str:
        result = await self._sandboxes["default"].exec(["sh", "-c", command])
        if not result.success:
            raise RuntimeError(f"{command!r} failed: {result.stderr}")
        return str(result.stdout)

    async def stop(self) -> None:
        await LocalSandboxEnvironment.sample_cleanup("bench", None, self._sandboxes, interrupted=False)


if __name__ == "__main__":
    main(InspectSandbox)
