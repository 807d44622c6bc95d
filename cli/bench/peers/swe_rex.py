"""Runtime of SWE-ReX under the clock: ``local``, a bash that stays open in this process."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from pathlib import Path

from clock import main
from swerex.deployment.local import LocalDeployment
from swerex.runtime.abstract import BashAction, CreateBashSessionRequest


class SweRex:
    """One deployment with one session of bash."""

    def __init__(self, kind: str) -> None:
        self._deployment = LocalDeployment()
        self._folder = Path()

    async def start(self, tree: Path) -> None:
        self._deployment = LocalDeployment()
        self._folder = Path(tempfile.mkdtemp(prefix="bench-"))
        await asyncio.to_thread(shutil.copytree, tree, self._folder / "tree", symlinks=True)
        await self._deployment.start()
        await self._deployment.runtime.create_session(CreateBashSessionRequest())
        await self.run(f"cd {self._folder / 'tree'}")

    async def run(self, command: str) -> str:
        result = await self._deployment.runtime.run_in_session(BashAction(command=command, check="raise"))
        return str(result.output)

    async def stop(self) -> None:
        await self._deployment.stop()
        await asyncio.to_thread(shutil.rmtree, self._folder)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main(SweRex)
