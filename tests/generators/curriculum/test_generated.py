"""``etude generate`` with ``--difficulty`` and ``--curriculum`` on a small real package."""

from __future__ import annotations

import asyncio
import json

import pytest
from helpers.light_checks import LIGHT
from helpers.paths import DATA

from etude.cli.app import main
from etude.environments.runs.play import run_episodes
from etude.environments.tasks.task_set import TaskSet
from etude.errors import GeneratorError
from etude.generators.generate import generate

pytestmark = pytest.mark.slow

GENERATORS = ["bug_operator", "fd_function"]


def make(out, generators=GENERATORS, count=2, **more):
    return generate([str(DATA / "scales")], generators=generators, count=count, seed=7, out=out, knobs=LIGHT, **more)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Return a set of tasks, and a folder with a run that solved about half of the tries."""
    folder = tmp_path_factory.mktemp("played")
    make(folder / "tasks")
    tasks = TaskSet.load(folder / "tasks")
    asyncio.run(run_episodes(tasks, "noisy:0.5,0.5", out=folder / "runs" / "step-0", n=4))
    return folder


def test_a_curriculum_makes_tasks_of_the_settings_that_fit_the_run(played, tmp_path):
    report = make(tmp_path / "first", curriculum=played / "runs")
    plan = report.curriculum
    assert report.tasks and plan["runs"] == ["step-0"] and plan["solved_sometimes"]
    assert all(0.3 <= request["expected_failure_rate"] <= 0.7 for request in plan["requests"])
    asked_for = [{"name": request["generator"], **request["knobs"]} for request in plan["requests"]]
    for task in TaskSet.load(tmp_path / "first"):
        own = {"name": task.generator.name, **task.generator.knobs}
        assert any(setting.items() <= own.items() for setting in asked_for)
    assert json.loads((tmp_path / "first" / "report.json").read_text())["curriculum"] == plan


def test_a_difficulty_keeps_the_tasks_that_are_expected_to_fail_as_often(tmp_path):
    report = make(tmp_path, difficulty="0:0.6")
    assert (report.tasks, report.rejected) == (2, {"difficulty": 2})
    assert {task.generator.name for task in TaskSet.load(tmp_path)} == {"bug_operator"}


def test_bad_requests_are_refused_before_a_snapshot_is_built(tmp_path, capsys):
    with pytest.raises(GeneratorError, match="is not a folder"):
        make(tmp_path / "out", curriculum=tmp_path / "none")
    with pytest.raises(GeneratorError, match="--difficulty"):
        make(tmp_path / "out", difficulty="tough")
    assert not (tmp_path / "out").exists()
    assert main(["generate", "missing", "--curriculum", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) != 0
    assert "give the folder with the runs of `etude run`" in capsys.readouterr().err
