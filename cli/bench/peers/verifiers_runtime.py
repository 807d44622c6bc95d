"""Runtime of verifiers under the clock: ``subprocess``, commands of this machine in a folder of the cache."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from pathlib import Path

from clock import main
from verifiers.v1.runtimes.subprocess import SubprocessConfig, SubprocessRuntime


class VerifiersRuntime:
    """One runtime, as a rollout starts it."""

    def __init__(self, kind: str) -> None:
        self._runtime = SubprocessRuntime(SubprocessConfig())

    async def start(self, tree: Path) -> None:
        self._runtime = SubprocessRuntime(SubprocessConfig(), name=f"bench-{uuid.uuid4().hex}")
        await self._runtime.start()
        assert self._runtime.workdir is not None
        await asyncio.to_thread(shutil.copytree, tree, self._runtime.workdir, symlinks=True, dirs_exist_ok=True)

    async def run(self, command: str) -> str:
        result = await self._runtime.run(["sh", "-c", command], {})
        if result.exit_code:
            raise RuntimeError(f"{command!r} failed: {result.stderr}")
        return result.stdout

    async def stop(self) -> None:
        await self._runtime.stop()


if __name__ == "__main__":
    main(VerifiersRuntime)
