"""``etude generate --impossible`` end to end: rows, report, card, and the same bytes again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.paths import DATA

from etude.cli.app import main
from etude.environments.tasks.task_set import TaskSet
from etude.models import IMPOSSIBLE, MAY_GIVE_UP, TWIN_OF


@pytest.mark.slow
def test_a_generated_set_has_twins_that_an_audit_accepts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["-g", "fd_function,bug_operator", "--count", "2", "--any-licence", "--impossible"]
    for out in ("first", "second"):
        assert main(["generate", str(DATA / "cellar"), *options, "--out", str(tmp_path / out)]) == 0
    assert "impossible twins: made " in capfd.readouterr().out
    rows = [(tmp_path / out / "tasks.jsonl").read_bytes() for out in ("first", "second")]
    assert rows[0] == rows[1]
    tasks = list(TaskSet.load(tmp_path / "first"))
    twins = [task for task in tasks if task.features.get(IMPOSSIBLE)]
    originals = {task.task_id for task in tasks if task not in twins}
    assert twins and {task.features[TWIN_OF] for task in twins} <= originals
    assert all(task.features[MAY_GIVE_UP] for task in tasks)
    report = json.loads((tmp_path / "first" / "report.json").read_text())
    assert report["twins"]["made"] == len(twins) and report["tasks"] == len(originals)
    assert sum(report["twins"].values()) == len(originals)
    assert f"{len(twins)} tasks are impossible twins" in (tmp_path / "first" / "README.md").read_text()
    assert main(["validate", str(tmp_path / "first"), "--skip", "leaks", "--skip", "trivial", "--runs", "1"]) == 0


def test_a_data_set_has_no_twins(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "swe-bench:lite", "--impossible", "--out", str(tmp_path)]) != 0
    assert "twins are made of generated tasks, not of a data set" in capfd.readouterr().err
