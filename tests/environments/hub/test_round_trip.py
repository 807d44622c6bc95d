"""A real task set that is pushed, read back and played: the same bytes and the same rewards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from etude.environments.tasks.task_set import write_tasks
from etude.generators.output.pack_set import pack_set
from etude.models import Task

UNREACHABLE = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_NO_INDEX": "1", "ETUDE_SOURCES": ""}


@pytest.fixture(scope="module")
def packed(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pushed") / "set"
    folder.mkdir()
    write_tasks(folder, [task])
    pack_set(folder)
    return folder


def etude(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "etude.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_a_pushed_set_gives_the_same_rewards_on_a_machine_without_its_snapshots(
    hub: Any, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    etude("push", packed, "ada/tally")
    for name, value in UNREACHABLE.items():
        monkeypatch.setenv(name, value)
    rewards: dict[str, dict[str, Any]] = {}
    for place, tasks in (("folder", str(packed)), ("hub", "hub:ada/tally@main")):
        for agent in ("oracle", "noop"):
            out = tmp_path / place / agent
            etude("run", "--tasks", tasks, "--agent", agent, "--out", out)
            (line,) = (out / "episodes.jsonl").read_text().splitlines()
            rewards.setdefault(agent, {})[place] = json.loads(line)["reward"]
    assert rewards["oracle"]["folder"] == rewards["oracle"]["hub"]
    assert rewards["noop"]["folder"] == rewards["noop"]["hub"]
    assert (rewards["oracle"]["hub"]["value"], rewards["noop"]["hub"]["value"]) == (1.0, 0.0)
    assert hub.files("ada/tally")["tasks.jsonl"] == (packed / "tasks.jsonl").read_bytes()


def test_a_server_plays_a_set_on_the_hub(hub: Any, packed: Path, tmp_path: Path) -> None:
    etude("push", packed, "ada/tally")
    command = [sys.executable, "-u", "-m", "etude.cli", "serve", "hub:ada/tally@main", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().removeprefix("serving ").strip()
            out = tmp_path / "run"
            etude("run", "--tasks", packed, "--url", url, "--agent", "oracle", "--out", out)
        finally:
            server.terminate()
    assert json.loads((out / "summary.json").read_text())["reward"] == 1.0
