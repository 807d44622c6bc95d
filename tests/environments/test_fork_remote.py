"""Forks over a real server: OpenEnv's stock client, ours, and what each may fork."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openenv.core.generic_client import GenericEnvClient

from etude.client import connect
from etude.environments.tasks.task_set import TaskSet, write_tasks
from etude.errors import ServerError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tasks: TaskSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("served") / "tasks"
    write_tasks(folder, tasks)
    environment = {**os.environ, "PORT": "0", "ETUDE_TASKS": str(folder)}
    command = [sys.executable, "-m", "etude.server.app"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[1]
        finally:
            server.kill()


def bash(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"id": "c1", "name": "bash", "arguments": {"command": command}}]}


def test_openenvs_generic_client_forks_its_episode(url: str) -> None:
    with GenericEnvClient(base_url=url, message_timeout_s=600).sync() as client:
        client.reset(task_id="tally-total", episode_id="first")
        for number in range(3):
            client.step(bash(f"echo {number} >note"))
        forked = client.reset(fork_of="first", turn=2)
        assert [message["content"] for message in forked.observation["messages"]] == ["ok", "ok"]
        assert client.step(bash("cat note")).observation["messages"][0]["content"] == "ok\n1\n"
        state = client.state()
    assert (state["step_count"], state["fork"]) == (3, {"episode_id": "first", "turn": 2, "replayed": 0})


def test_another_clients_episode_takes_its_token(url: str) -> None:
    with connect(url) as source, connect(url) as other:
        source.reset(task_id="tally-total", episode_id="mine")
        source.step(bash("echo secret >note"))
        other.reset(task_id="tally-total", episode_id="others")
        for guess in ({}, {"token": other.state().token}, {"token": ""}, {"token": "0" * 32}):
            with pytest.raises(ServerError, match="no episode 'mine' is kept for this token"):
                other.reset(fork_of="mine", **guess)
        with pytest.raises(ServerError, match="give fork_of or task_id, not both"):
            other.reset(fork_of="mine", task_id="tally-total")
        token = source.state().token
        first = other.reset(fork_of="mine", token=token)
        assert [message.content for message in first.messages] == ["ok"]
        assert other.step(bash("cat note")).messages[0].content == "ok\nsecret\n"
        # The fork is an episode of the one who forked, under that session's token.
        assert other.state().token not in (None, token)
        episode = other.episode()
    assert len(episode.turns) == 2 and episode.fork is not None and episode.fork.episode_id == "mine"
    # Its session and client are gone, the episode is still there to fork.
    with connect(url) as late:
        late.reset(fork_of="mine", token=token, turn=1)
        assert late.step(bash("cat note")).messages[0].content == "ok\nsecret\n"
