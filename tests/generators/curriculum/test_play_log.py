"""Runs on disk: what is counted, in which order, and what is refused with its remedy."""

from __future__ import annotations

import asyncio
import json

import pytest

from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.play import run_episodes
from etude.environments.runs.played_tasks import PLAYED_TASKS, read_played_tasks
from etude.errors import GeneratorError, RunError
from etude.generators.curriculum.play_log import read_play_log


def play(out, agent="oracle", n=2, limit=3):
    asyncio.run(run_episodes(DrillTasks(["choose"], level=2), agent, out=out, n=n, limit=limit))


def test_solve_rates_are_counted_per_run_in_natural_order(tmp_path):
    play(tmp_path / "step-10", n=1)
    play(tmp_path / "step-2", agent="noop")
    log = read_play_log(tmp_path, "drill")
    assert log.runs == ["step-2", "step-10"]
    assert (log.solve_rate(0), log.solve_rate()) == (0.0, 1.0)
    assert [(item.player, item.tries, item.solved) for item in log.plays] == [(0, 2, 0)] * 3 + [(1, 1, 1)] * 3
    assert all((task.level, task.labels["family"]) == (2, "choose") for task in log.features.values())


def test_a_single_run_is_a_folder_of_runs_too(tmp_path):
    play(tmp_path / "only")
    assert read_play_log(tmp_path / "only", "drill").runs == ["only"]


def test_tasks_solved_sometimes_are_those_between_0_and_1(tmp_path):
    play(tmp_path / "run", agent="noisy:0.5,0.5", n=8, limit=6)
    log = read_play_log(tmp_path, "drill")
    solved = {task: rate for task, rate in log.last_rates().items() if 0 < rate < 1}
    assert log.of_both() == sorted(solved) and solved


def test_a_resumed_run_describes_all_its_tasks(tmp_path):
    play(tmp_path, limit=2)
    play(tmp_path, limit=4)
    assert len(read_played_tasks(tmp_path)) == 4


@pytest.mark.parametrize("make_folder", [False, True])
def test_a_folder_without_runs_is_refused(tmp_path, make_folder):
    folder = tmp_path / "runs"
    if make_folder:
        folder.mkdir()
    with pytest.raises(GeneratorError, match="etude run"):
        read_play_log(folder, "drill")


def test_tasks_that_a_run_does_not_describe_are_refused(tmp_path):
    play(tmp_path / "run")
    (tmp_path / "run" / PLAYED_TASKS).unlink()
    with pytest.raises(GeneratorError, match=r"the task 'drill-choose-0-l2' and 2 more; play it again"):
        read_play_log(tmp_path, "drill")


def test_a_damaged_description_is_refused_with_its_line(tmp_path):
    play(tmp_path / "run")
    file = tmp_path / "run" / PLAYED_TASKS
    file.write_text(file.read_text() + "{}\n")
    with pytest.raises(RunError, match=r"played_tasks.jsonl:4 is not a played task; delete the file"):
        read_play_log(tmp_path, "drill")


def test_runs_of_another_environment_are_refused(tmp_path):
    play(tmp_path / "run")
    with pytest.raises(GeneratorError, match="no episode of a coding task in .* has a score"):
        read_play_log(tmp_path, "coding")


def test_a_run_of_two_agents_is_refused(tmp_path):
    play(tmp_path / "run")
    episodes = tmp_path / "run" / "episodes.jsonl"
    row = {**json.loads(episodes.read_text().splitlines()[0]), "agent": "other"}
    with episodes.open("a") as file:
        file.write(json.dumps(row) + "\n")
    with pytest.raises(GeneratorError, match=r"2 agents \(oracle, other\)"):
        read_play_log(tmp_path, "drill")
