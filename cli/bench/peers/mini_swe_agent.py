"""Environments of mini-swe-agent under the clock: ``local``, ``bubblewrap`` and ``docker``."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from clock import main
from minisweagent.environments.docker import DockerEnvironment
from minisweagent.environments.extra.bubblewrap import BubblewrapEnvironment
from minisweagent.environments.local import LocalEnvironment

INSIDE = "/tmp/bench"


class MiniSweAgent:
    """One environment. Its calls block, so that each runs in a thread."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._environment: Any = None
        self._folder = Path()

    async def start(self, tree: Path) -> None:
        await asyncio.to_thread(self._start, tree)

    def _start(self, tree: Path) -> None:
        if self._kind == "docker":
            arguments = json.loads(os.environ["BENCH_DOCKER"])  # options, then the image
            *options, image = arguments
            self._environment = DockerEnvironment(
                image=image, run_args=["--rm", *options], interpreter=["/bin/sh", "-c"]
            )
            subprocess.run(
                ["docker", "cp", "-q", f"{tree}/.", f"{self._environment.container_id}:{INSIDE}"], check=True
            )
            self._environment.config.cwd = INSIDE
            return
        self._folder = Path(tempfile.mkdtemp(prefix="bench-"))
        shutil.copytree(tree, self._folder / "tree", symlinks=True)
        choose = BubblewrapEnvironment if self._kind == "bubblewrap" else LocalEnvironment
        self._environment = choose(cwd=str(self._folder / "tree"))

    async def run(self, command: str) -> str:
        result = await asyncio.to_thread(self._environment.execute, {"command": command})
        if result["returncode"]:
            raise RuntimeError(f"{command!r} failed: {result}")
        return str(result["output"])

    async def stop(self) -> None:
        if self._kind == "docker":
            name = self._environment.container_id
            self._environment.container_id = None
            await asyncio.to_thread(subprocess.run, ["docker", "rm", "-f", name], check=True, capture_output=True)
            return
        await asyncio.to_thread(shutil.rmtree, self._folder)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main(MiniSweAgent)
