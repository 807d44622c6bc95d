"""`etude hints causal --url`: hints measured on a real server, over the socket."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from etude.cli import app as cli
from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.play import run_episodes

pytestmark = pytest.mark.slow


@contextmanager
def serving(sessions: int) -> Iterator[str]:
    """Run a drill server that takes this many sessions at once; yield its address."""
    command = [sys.executable, "-m", "etude.cli", "serve", "--env", "drill", "--port", "0"]
    environment = {**os.environ, "MAX_CONCURRENT_ENVS": str(sessions)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[1]
        finally:
            server.kill()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    asyncio.run(run_episodes(DrillTasks(["recover"], level=1), "oracle", out=tmp_path, limit=2))
    return tmp_path


def causal(run: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run the command; return its exit code, what it printed, and its errors."""
    code = cli.main(["hints", "causal", str(run), "--agent", "noisy:0,1", "--json", *arguments])
    printed = capsys.readouterr()
    return code, json.loads(printed.out), printed.err


def test_a_server_forks_for_every_trial_and_a_lost_one_voids_the_rest(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(sessions=1) as url:
        code, result, _ = causal(run, capsys, "--k", "3", "--url", url, "--out", str(run / "far"))
    assert (code, result["ok"], result["replayed"], result["diverged"]) == (0, True, 0, 0)
    arms = result["pooled"][0]["trials"]
    assert (arms["with_successes"], arms["with_trials"]) == (6, 6)
    assert (arms["without_successes"], arms["without_trials"]) == (0, 6)
    code, result, error = causal(run, capsys, "--k", "1", "--url", url, "--out", str(run / "lost"))
    assert (code, result["valid"], result["void"]) == (1, {"with": 0, "without": 0}, {"with": 2, "without": 2})
    assert "4 trials: cannot connect to" in error and "is the server running?" in error


def test_trials_are_void_when_the_server_is_full_and_are_played_later(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(sessions=1) as url:
        code, result, error = causal(run, capsys, "--k", "2", "--url", url, "--jobs", "2")
        assert code == 1 and "set MAX_CONCURRENT_ENVS" in error
        assert sum(result["valid"].values()) + sum(result["void"].values()) == 8
        code, result, _ = causal(run, capsys, "--k", "2", "--url", url)
    assert (code, result["valid"], result["void"]) == (0, {"with": 4, "without": 4}, {"with": 0, "without": 0})


def test_a_server_of_other_drills_says_what_it_cannot_play(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give the server another secret: its faults and answers differ, so the pasts diverge and are counted."""
    monkeypatch.setenv("ETUDE_DRILL_SECRET", "another")
    with serving(sessions=1) as url:
        monkeypatch.delenv("ETUDE_DRILL_SECRET")
        code, result, _ = causal(run, capsys, "--k", "1", "--url", url)
    assert code == 0 and result["diverged"] == 4
