"""The scripted agents against a real server, over the socket."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from etude.client import ConnectionLost
from etude.environments.play import run_episodes
from etude.environments.tasks import TaskSet, write_tasks
from etude.models import Task


@pytest.mark.slow
def test_agents_score_the_same_over_the_socket(task: Task, tmp_path: Path) -> None:
    tasks = TaskSet([task, task.model_copy(update={"task_id": "again", "instance_id": "again"})])
    write_tasks(tmp_path / "tasks", tasks)
    environment = {**os.environ, "PORT": "0", "ETUDE_TASKS": str(tmp_path / "tasks")}
    command = [sys.executable, "-m", "etude.server.app"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[1]
            for name, value in (("oracle", 1.0), ("noop", 0.0), ("cheater", 0.0)):
                summary = asyncio.run(run_episodes(tasks, name, url=url, jobs=2, out=tmp_path / name))
                assert (summary.reward, summary.valid, summary.ok) == (value, 2, True)
        finally:
            server.kill()
    with pytest.raises(ConnectionLost, match="is the server running"):
        asyncio.run(run_episodes(tasks, "oracle", url=url, out=tmp_path / "lost"))
    assert not (tmp_path / "lost").exists()
