"""The scripted agents against a real server, over the socket."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.play import run_episodes
from etude.environments.runs.reader import stored_episodes
from etude.environments.tasks.task_set import TaskSet, write_tasks
from etude.errors import ConnectionLost
from etude.models import Task


@contextmanager
def server(**more: str) -> Iterator[str]:
    """Run a server with these environment variables; yield its address."""
    command = [sys.executable, "-m", "etude.server.app"]
    environment = {**os.environ, "PORT": "0", **more}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
        finally:
            process.kill()


@pytest.mark.slow
def test_agents_score_the_same_over_the_socket(task: Task, tmp_path: Path) -> None:
    tasks = TaskSet([task, task.model_copy(update={"task_id": "again", "instance_id": "again"})])
    write_tasks(tmp_path / "tasks", tasks)
    with server(ETUDE_TASKS=str(tmp_path / "tasks")) as url:
        for name, value in (("oracle", 1.0), ("noop", 0.0), ("cheater", 0.0)):
            summary = asyncio.run(run_episodes(tasks, name, url=url, jobs=2, out=tmp_path / name))
            assert (summary.reward, summary.valid, summary.ok) == (value, 2, True)
    with pytest.raises(ConnectionLost, match="is the server running"):
        asyncio.run(run_episodes(tasks, "oracle", url=url, out=tmp_path / "lost"))
    assert not (tmp_path / "lost").exists()


@pytest.mark.slow
def test_faults_and_annotations_over_the_socket_are_those_of_this_process(tmp_path: Path) -> None:
    with server(ETUDE_ENV="drill", ETUDE_FAULTS="timeout@0") as url:
        for name, place in (("here", None), ("there", url)):
            more = {"url": place, "out": tmp_path / name, "limit": 5, "faults": "transient@4"}
            asyncio.run(run_episodes(DrillTasks(), "stumbler", **more))
        asyncio.run(run_episodes(DrillTasks(), "stumbler", url=url, out=tmp_path / "server's", limit=1))
    here, there = ([one.episode for one in stored_episodes(tmp_path / name)] for name in ("here", "there"))
    assert [episode.error_turns for episode in here] == [episode.error_turns for episode in there]
    kinds = {fault.kind for episode in there for fault in episode.injected}
    assert "transient" in kinds and "timeout" not in kinds
    assert stored_episodes(tmp_path / "server's")[0].episode.injected[0].kind == "timeout"
