"""Hints measured on a real server, over the socket."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from etude.environments.drills.tasks import DrillTasks
from etude.environments.hint_trials import measure_hints
from etude.environments.play import run_episodes


@pytest.mark.slow
def test_a_server_forks_for_every_trial_and_a_lost_one_voids_the_rest(tmp_path: Path) -> None:
    asyncio.run(run_episodes(DrillTasks(["recover"], level=1), "oracle", out=tmp_path, limit=2))
    command = [sys.executable, "-m", "etude.cli", "serve", "--env", "drill", "--port", "0"]
    environment = {**os.environ, "MAX_CONCURRENT_ENVS": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[1]
            found = asyncio.run(measure_hints(tmp_path, "noisy:0,1", k=3, url=url, out=tmp_path / "far"))
        finally:
            server.kill()
    assert (found.ok, found.replayed, found.diverged) == (True, 0, 0)
    arms = found.pooled[0].trials
    assert (arms.with_successes, arms.with_trials, arms.without_successes, arms.without_trials) == (6, 6, 0, 6)
    lost = asyncio.run(measure_hints(tmp_path, "noisy:0,1", k=1, url=url, out=tmp_path / "lost"))
    assert (lost.ok, lost.valid, lost.void) == (False, {"with": 0, "without": 0}, {"with": 2, "without": 2})
