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
    """The address of a drill server that takes so many sessions at once."""
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
    """Return the exit code, what was printed and the errors."""
    code = cli.main(["hints", "causal", str(run), "--agent", "noisy:0,1", "--json", *arguments])
    printed = capsys.readouterr()
    return code, json.loads(printed.out), printed.err


def test_a_server_forks_for_every_trial_and_a_lost_one_voids_the_rest(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(sessions=1) as url:
        code, found, _ = causal(run, capsys, "--k", "3", "--url", url, "--out", str(run / "far"))
    assert (code, found["ok"], found["replayed"], found["diverged"]) == (0, True, 0, 0)
    arms = found["pooled"][0]["trials"]
    assert (arms["with_successes"], arms["with_trials"]) == (6, 6)
    assert (arms["without_successes"], arms["without_trials"]) == (0, 6)
    code, found, error = causal(run, capsys, "--k", "1", "--url", url, "--out", str(run / "lost"))
    assert (code, found["valid"], found["void"]) == (1, {"with": 0, "without": 0}, {"with": 2, "without": 2})
    assert "4 trials: cannot connect to" in error and "is the server running?" in error


def test_a_server_with_too_few_seats_voids_what_found_none_and_that_is_played_later(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(sessions=1) as url:
        code, found, error = causal(run, capsys, "--k", "2", "--url", url, "--jobs", "2")
        assert code == 1 and "set MAX_CONCURRENT_ENVS" in error
        assert sum(found["valid"].values()) + sum(found["void"].values()) == 8
        code, found, _ = causal(run, capsys, "--k", "2", "--url", url)
    assert (code, found["valid"], found["void"]) == (0, {"with": 4, "without": 4}, {"with": 0, "without": 0})


def test_a_server_of_other_drills_says_what_it_cannot_play(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a secret of its own the server's faults and answers are others: pasts differ, and that is counted."""
    monkeypatch.setenv("ETUDE_DRILL_SECRET", "another")
    with serving(sessions=1) as url:
        monkeypatch.delenv("ETUDE_DRILL_SECRET")
        code, found, _ = causal(run, capsys, "--k", "1", "--url", url)
    assert code == 0 and found["diverged"] == 4
