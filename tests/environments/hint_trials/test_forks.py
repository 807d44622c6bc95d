"""Forks: an episode continued from any turn is the same up to that turn, and is written to a run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from etude.environments.drill.tasks import DrillTasks
from etude.environments.hint_trials.forks import ForkSettings, fork_episode
from etude.environments.logs.annotating import annotate_logs
from etude.environments.runs.play import run_episodes
from etude.environments.runs.reader import Stored, read_run
from etude.errors import RunError

TASKS = DrillTasks(["chain"], level=2)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    out = tmp_path_factory.mktemp("run")
    asyncio.run(run_episodes(TASKS, "stumbler", out=out, limit=1))
    return next(read_run(out))


@pytest.mark.parametrize("turn", [0, 1, 3])
@pytest.mark.parametrize("hint", ["", "Read the file first."])
def test_fork_plays_the_turns_before_again_and_is_written(stored: Stored, turn: int, hint: str, tmp_path: Path) -> None:
    turns: list[int] = []
    settings = ForkSettings("noisy:0,1", tmp_path, TASKS)
    asyncio.run(fork_episode(stored, turn, hint, settings, turns.append))
    (fork,) = read_run(tmp_path)
    assert [one.action for one in fork.episode.turns[:turn]] == [one.action for one in stored.episode.turns[:turn]]
    assert fork.episode.fork is not None and fork.episode.fork.turn == turn
    assert fork.episode.fork.episode_id == stored.episode.episode_id
    assert (fork.settings["hint"], fork.settings["replay_differed"]) == (hint or None, False)
    assert fork.episode.reward is not None and fork.episode.reward.value == float(bool(hint))
    assert turns == list(range(turn + 1, len(fork.episode.turns) + 1))


def test_forks_of_one_run_are_appended(stored: Stored, tmp_path: Path) -> None:
    settings = ForkSettings("noisy", tmp_path, TASKS)
    for _ in range(2):
        asyncio.run(fork_episode(stored, 1, "", settings))
    assert [fork.sample for fork in read_run(tmp_path)] == [0, 1]


def test_fork_finds_the_tasks_that_an_environment_makes_itself(stored: Stored, tmp_path: Path) -> None:
    row = asyncio.run(fork_episode(stored, 0, "", ForkSettings("noisy", tmp_path)))
    assert row["task_id"] == stored.episode.task_id


def test_fork_is_refused_after_the_end_of_the_episode(stored: Stored, tmp_path: Path) -> None:
    settings = ForkSettings("noisy", tmp_path, TASKS)
    number = len(stored.episode.turns)
    for turn, reason in ((number, "ends before this turn"), (number + 1, "choose one of them"), (-1, "choose one")):
        with pytest.raises(RunError, match=reason):
            asyncio.run(fork_episode(stored, turn, "", settings))
    assert not list(tmp_path.iterdir())


def test_fork_is_refused_for_a_log_of_another_tool(root: Path, tmp_path: Path) -> None:
    annotate_logs([root / "tests" / "data" / "logs" / "harbor" / "delegation.json"], tmp_path / "log")
    with pytest.raises(RunError, match="log of another tool"):
        asyncio.run(fork_episode(next(read_run(tmp_path / "log")), 0, "", ForkSettings("noisy", tmp_path / "forks")))
