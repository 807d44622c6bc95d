"""Each generator in each mode: its candidates become tasks, and the audit finds no problem with them."""

from __future__ import annotations

import pytest
from helpers.light_checks import LIGHT
from helpers.paths import DATA
from helpers.small_tasks import PROJECT

from etude.generators.generate import generate
from etude.generators.validation.audit import validate
from etude.models import Task

WAX = """
def finish(thing, name="plain"):
    \"\"\"Return a finished thing.\"\"\"

    def polished_with_beeswax():
        return thing * 2

    if name != "plain":
        return polished_with_beeswax.__name__
    return polished_with_beeswax()


def other(thing):
    return thing
"""
WAX_TESTS = """
from wax import finish, other


def test_name():
    assert finish("a", name="named").startswith("polished")


def test_finish():
    assert finish("oak") == "oakoak"


def test_numbers():
    assert finish(2) == 4


def test_other():
    assert other(1) == 1


def test_others():
    assert other(2) == 2


def test_more():
    assert other(3) == 3
"""
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


@pytest.mark.parametrize("mode", ["stub", "remove"])
def test_a_statement_shows_examples_but_none_that_gives_the_solution_away(tmp_path, mode):
    source = tmp_path / "wax"
    files = {"pyproject.toml": PROJECT.format(name="wax"), "src/wax/__init__.py": WAX, "tests/test_wax.py": WAX_TESTS}
    for path, text in files.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text)
    knobs = {**LIGHT, "mode": mode, "min_lines": 2, "max_share": 0.9}
    report = generate([str(source)], generators=["fd_function"], count=1, seed=3, out=tmp_path / "out", knobs=knobs)
    assert report.tasks == 1, report.rejected
    task = Task.model_validate_json((tmp_path / "out" / "tasks.jsonl").read_text())
    assert (
        ">>> from wax import finish" in task.problem_statement
        and ">>> finish('oak')\n'oakoak'\n" in task.problem_statement
    )
    assert "beeswax" not in task.problem_statement and task.features["examples"] == 1
