"""Each generator whose agent hands in something else than sources: the audit finds no problem with its tasks."""

from __future__ import annotations

import pytest
from helpers.paths import DATA

from etude.generators.generate import generate
from etude.generators.validation.audit import validate


@pytest.mark.slow
@pytest.mark.parametrize(("generator", "count"), [("write_tests", 2), ("reproduce_bug", 2), ("code_question", 4)])
def test_tasks_pass_the_audit(tmp_path, generator, count):
    report = generate([str(DATA / "scales")], generators=[generator], count=count, seed=1, out=tmp_path)
    assert report.tasks >= count // 2, report.rejected
    assert validate(tmp_path, runs=2).ok
