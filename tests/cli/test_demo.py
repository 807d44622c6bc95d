"""The whole chain, as ``etude demo`` shows it, on a small local package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.paths import DATA

from etude.cli.demo import run_demo
from etude.environments.tasks.task_set import TaskSet
from etude.errors import DemoError
from etude.generators.validation.audit import EXPECTED

STUMBLER = {("stumbler", "tasks"): 1.0, ("stumbler", "drill"): 1.0}
SCALES = DATA / "scales"


@pytest.mark.slow
def test_a_package_is_generated_served_played_and_graded(tmp_path: Path) -> None:
    phases: list[str] = []
    demo = run_demo(str(SCALES), count=3, out=tmp_path, progress=lambda phase, done, total: phases.append(phase))
    assert demo.ok
    scripted = {(row.agent, row.plays): row.mean_reward for row in demo.rows}
    assert scripted == {**{(agent, "tasks"): reward for agent, reward in EXPECTED.items()}, **STUMBLER}
    assert demo.tasks == len(TaskSet.load(tmp_path)) > 0
    assert demo.statement.startswith("sandbox: ")
    assert "playing over OpenEnv" in phases


@pytest.mark.slow
def test_every_episode_is_on_the_report(tmp_path: Path) -> None:
    demo = run_demo(str(SCALES), count=1, out=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "episodes.jsonl").read_text().splitlines()]
    page = Path(demo.report).read_text()
    assert demo.report == str(tmp_path / "report.html")
    assert page.count("<article") == len(rows) == sum(row.episodes for row in demo.rows)
    # A finding is listed on top of its episode, and at its turn when it has one.
    findings = [finding for row in rows for finding in row["findings"]]
    at_turns = [finding for finding in findings if finding["turn"] is not None]
    assert page.count('<li class="finding') == len(findings) + len(at_turns) > 0
    assert page.count('<li class="error') == sum(len(row["error_turns"]) for row in rows)
    assert '<tr class="added">' in page and '<tr class="removed">' in page
    for task in TaskSet.load(tmp_path):
        assert not [test for test in task.FAIL_TO_PASS if test in page]


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    from etude.cli import demo

    with (
        pytest.raises(DemoError, match="did not start"),
        demo._served(["--tasks", str(tmp_path)], tmp_path / "server.log"),
    ):
        pass
