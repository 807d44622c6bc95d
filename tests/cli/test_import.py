"""``etude import`` and ``etude generate`` with a data set as source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.row_repository import make_repository

from etude.cli.app import main
from etude.environments.tasks.task_set import TaskSet


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    repository = make_repository(tmp_path / "clones")
    instance = repository.instance()
    row = {
        "instance_id": instance.instance_id,
        "repo": instance.repo,
        "base_commit": instance.base_commit,
        "environment_setup_commit": instance.base_commit,
        "version": "1.0",
        "created_at": "2024-01-01T00:00:00Z",
        "problem_statement": "area() adds\r\nthe sides.",
        "hints_text": "",
        "patch": instance.patch,
        "test_patch": instance.test_patch,
        "FAIL_TO_PASS": json.dumps(instance.fail_to_pass),
        "PASS_TO_PASS": json.dumps(instance.pass_to_pass),
        "install_config": {"python": "3.11", "install": "pip install -e .", "test_cmd": "pytest -rA"},
    }
    other = {**row, "instance_id": "example__shapes-2", "base_commit": "0" * 40}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in (row, other)))
    return path


def test_import_prints_the_verdicts_and_writes_a_set_that_can_be_served(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["import", str(rows), "--repos", str(tmp_path / "clones"), "--out", str(out)]
    assert main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["instances"], report["tasks"]) == (2, 1)
    assert report["verdicts"] == {"valid": 1, "needs_build": 1}
    assert report["reason"].startswith("example__shapes-2: ") and str(tmp_path) not in report["reason"]
    (task,) = TaskSet.load(out)
    assert (task.task_id, task.problem_statement) == ("example__shapes-1", "area() adds\nthe sides.")
    assert main([*arguments, "--limit", "1"]) == 1  # another request, the same folder
    assert "already holds a set made from other rows" in capsys.readouterr().err


def test_import_says_why_no_row_became_a_task(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["import", str(rows), "--only", "example__shapes-2", "--repos", str(tmp_path / "clones")]
    assert main([*command, "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: no row became a task (example__shapes-2: ") and "has no commit 0000" in error


def test_generate_takes_a_data_set_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "swe-bench:lite", "pypi:toolz==1.0.0", "--out", str(tmp_path / "out")]) != 0
    assert "swe-bench:lite is a data set; name it alone" in capsys.readouterr().err
