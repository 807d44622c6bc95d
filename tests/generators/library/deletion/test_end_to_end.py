"""Each generator in each mode: its candidates become tasks, and the audit finds no problem with them."""

from __future__ import annotations

import pytest
from helpers.paths import DATA

from etude.generators.generate import generate
from etude.generators.validation.audit import validate
from etude.models import Task

CELLAR = DATA / "cellar"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["stub", "remove"])
@pytest.mark.parametrize("generator", ["fd_function", "fd_method", "fd_class"])
def test_every_candidate_becomes_a_task_that_passes_the_audit(tmp_path, generator, mode):
    knobs = {"mode": mode, "min_lines": 2, "max_share": 0.9}
    report = generate([str(CELLAR)], generators=[generator], count=2, seed=3, out=tmp_path, jobs=2, knobs=knobs)
    assert (report.candidates, report.tasks) == (2, 2), report.rejected
    assert validate(tmp_path, jobs=2).ok
    for line in (tmp_path / "tasks.jsonl").read_text().splitlines():
        task = Task.model_validate_json(line)
        assert task.FAIL_TO_PASS and task.PASS_TO_PASS and task.patch and task.test_patch


@pytest.mark.slow
@pytest.mark.parametrize("tests", ["half", "visible"])
def test_tests_stay_in_the_workspace_by_policy_and_all_are_graded(tmp_path, tests):
    knobs = {"mode": "remove", "min_lines": 2, "max_share": 0.9, "tests": tests}
    report = generate([str(CELLAR)], generators=["fd_function"], count=1, seed=3, out=tmp_path, knobs=knobs)
    assert report.tasks == 1, report.rejected
    task = Task.model_validate_json((tmp_path / "tasks.jsonl").read_text())
    assert bool(task.test_patch) == (tests == "half")
    assert validate(tmp_path).ok
