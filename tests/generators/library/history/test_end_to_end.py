"""Tasks from the history of a small repository: generated through the command, checked, and the same bytes again."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from etude.cli.app import app
from etude.generators.generate import generate
from etude.generators.validation.audit import validate
from etude.models import Task

REFUSE = ("return paid - price", "if paid < price:\n        raise ValueError('too little')\n    return paid - price")
TEST = """

def test_too_little_is_refused():
    import pytest
    with pytest.raises(ValueError, match="too little"):
        change(5, 3)
"""
COINS = """

def coins(amount):
    \"\"\"Return the fewest coins of 5 and 1.\"\"\"
    return [5] * (amount // 5) + [1] * (amount % 5)
"""
COINS_TEST = """

def test_coins():
    assert coins(7) == [5, 1, 1]
"""


def grow(history):
    history.edit("Refuse payments that are too small (#4)\n\nSee #3.", code=REFUSE, test=TEST)
    history.edit(
        "Count the coins of an amount",
        code=(COINS_END := "return paid - price\n", COINS_END + COINS),
        test=COINS_TEST,
        imported="coins, ",
    )


@pytest.mark.slow
@pytest.mark.parametrize("source", ["folder", "git"])
def test_commits_become_tasks_that_pass_the_audit_and_are_the_same_again(history, tmp_path, source):
    grow(history)
    spec = str(history.folder) if source == "folder" else f"git+file://{history.folder}@main"
    outs = [tmp_path / "first", tmp_path / "second"]
    for out in outs:
        report = generate([spec], generators=["history_revert"], count=9, seed=0, out=out, jobs=2)
        assert (report.candidates, report.tasks) == (2, 2), report.rejected
    first, second = (out.joinpath("tasks.jsonl").read_bytes() for out in outs)
    assert first == second
    assert validate(outs[0], jobs=2).ok
    tasks = [Task.model_validate_json(line) for line in first.splitlines()]
    assert [task.FAIL_TO_PASS for task in tasks] == [
        ["tests/test_money.py::test_coins"],
        ["tests/test_money.py::test_too_little_is_refused"],
    ]
    assert "#" not in tasks[1].problem_statement.splitlines()[0].removeprefix("# ")
    assert "DID NOT RAISE" in tasks[1].problem_statement


@pytest.mark.slow
def test_the_command_takes_changes_since_a_day_and_leaves_out_a_generator_that_does_not_fit(history, tmp_path):
    grow(history)
    out = tmp_path / "out"
    command = ["generate", f"git+file://{history.folder}@main", "-g", "history_revert", "-o", str(out), "--json"]
    result = CliRunner().invoke(app, [*command, "--since", "2024-01-04"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["candidates"] == 1
    report = generate([str(history.folder)], generators=["all"], count=1, seed=0, out=tmp_path / "all")
    assert report.candidates > 1
