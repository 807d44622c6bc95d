"""A task set that Etude exported: the Harbor task folders beside this file, for verifiers 0.3.1 and 0.4.0.

An image is made for each with ``tasks/build_images.sh`` before they are played, and containers need the runtime
``docker``. This file is copied into the exported package; Etude never imports it.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

from verifiers.v1.runtimes import Runtime
from verifiers.v1.tasksets.harbor import HarborEnv, HarborTask, HarborTaskset
from verifiers.v1.tasksets.harbor.taskset import parse_task

__all__ = ["ExportedTaskset", "HarborEnv"]

SOLVE, TESTS, REWARD = "/tmp/solve.sh", "/tmp/tests.tar", "/logs/verifier/reward.json"


class ExportedTask(HarborTask):
    """One task folder."""

    async def validate(self, runtime: Runtime) -> bool:
        """Return whether the task's own solution gets the reward 1 and the untouched task none."""
        untouched = await self._score(runtime)
        await runtime.write(SOLVE, (Path(self.data.task_dir) / "solution" / "solve.sh").read_bytes())
        done = await runtime.run(["bash", SOLVE], {})
        return done.exit_code == 0 and untouched == 0.0 and await self._score(runtime) == 1.0

    async def _score(self, runtime: Runtime) -> float:
        tests = io.BytesIO()
        with tarfile.open(fileobj=tests, mode="w") as tar:
            tar.add(Path(self.data.task_dir) / "tests", arcname=".")
        await runtime.write(TESTS, tests.getvalue())
        stage = f"rm -rf /tests /logs/verifier && mkdir -p /tests /logs/verifier && tar -xf {TESTS} -C /tests"
        for command in (*(hook.command for hook in self.data.collect), stage, "bash /tests/test.sh"):
            done = await runtime.run(["sh", "-c", command], {})
            if done.exit_code != 0:
                raise RuntimeError(f"the grade of {self.data.name} failed: {(done.stderr or done.stdout)[-500:]}")
        scores = await runtime.run(["cat", REWARD], {})
        return float(json.loads(scores.stdout)["reward"])


class ExportedTaskset(HarborTaskset):
    """The task folders, in order."""

    def load(self) -> Iterator[ExportedTask]:
        """Yield the tasks."""
        for index, path in enumerate(sorted((Path(__file__).parent / "tasks").glob("*/task.toml"))):
            yield ExportedTask(parse_task(path.parent, index, self.config), self.config.task)
