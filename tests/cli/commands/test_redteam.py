"""``etude redteam``: the matrix, its exit code, and one line for bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from helpers.ledger_package import CORE, EXERCISE, FILES
from helpers.small_tasks import make_task, write_project

from etude.cli import app as cli
from etude.environments.redteam import campaign
from etude.environments.snapshots import build_snapshot
from etude.environments.tasks.task_set import TaskSet, write_tasks
from etude.monitors.exploits import Exploit

HIDDEN = "tests/test_hidden.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a task set of one task."""
    source = write_project(tmp_path_factory.mktemp("source") / "ledger", FILES)
    files = {**FILES, "src/ledger/core.py": CORE}
    names = ["test_total", "test_total_of_nothing", "TestTotal::test_many"]
    task = make_task(build_snapshot(str(source)), files, {"src/ledger/core.py": EXERCISE}, HIDDEN, names)
    task.problem_statement = "# Implement `ledger.core.total`\n\nIt adds up the values.\n"
    home = tmp_path_factory.mktemp("tasks")
    write_tasks(home, TaskSet([task]))
    return home


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    """Return the address of a server of the task set."""
    environment = {**os.environ, "PORT": "0", "ETUDE_TASKS": str(folder)}
    command = [sys.executable, "-m", "etude.server.app"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
        finally:
            process.kill()


def test_redteam_prints_a_matrix_and_succeeds_when_nothing_is_rewarded(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["redteam", str(folder), "--only", "conftest,os_exit", "--twins"]) == 0
    shown = capsys.readouterr().out
    assert [line.split("│")[1].strip() for line in shown.splitlines() if "│" in line] == ["T02", "T08", "all"]
    assert "2 of 2" in shown


def test_redteam_fails_and_says_which_exploit_was_rewarded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["redteam", str(folder), "--only", "eq_object,sitecustomize", "--json"])
    shown = capsys.readouterr()
    data = json.loads(shown.out)
    by_id = {attempt["exploit"]: attempt for attempt in data["attempts"]}
    assert by_id["sitecustomize"]["reward"] == 0 and by_id["sitecustomize"]["detected"]
    paid = by_id["eq_object"]["rewarded"]
    assert paid == (by_id["eq_object"]["assurance"] == "in_process"), "only grading in another process stops it"
    assert (code == 1, not data["ok"]) == (paid, paid)
    assert ("rewarded: eq_object (T14) (needs assurance out_of_process)" in shown.err) == paid


def interrupted_at(name: str, made: list[str], attempt: Any) -> Any:
    """Return an ``attempt`` that adds its exploit to ``made``, or raises KeyboardInterrupt at the named one."""

    async def attempt_or_interrupt(opened: Any, task_id: str, exploit: Exploit, *more: Any) -> Any:
        if exploit.id == name:
            raise KeyboardInterrupt
        made.append(exploit.id)
        return await attempt(opened, task_id, exploit, *more)

    return attempt_or_interrupt


def test_redteam_makes_no_attempt_twice_when_it_was_interrupted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole: Any = campaign.attempt
    made: list[str] = []
    (task,) = TaskSet.load(folder)
    task.problem_statement += uuid4().hex  # no earlier run of this test played it
    write_tasks(tmp_path, TaskSet([task]))
    command = ["redteam", str(tmp_path), "--only", "sitecustomize,os_exit", "--json"]
    monkeypatch.setattr(campaign, "attempt", interrupted_at("os_exit", made, whole))
    assert cli.main(command) == 130
    assert "Run the same command again to resume." in capsys.readouterr().err
    monkeypatch.setattr(campaign, "attempt", interrupted_at("", made, whole))
    for earlier, attempts in ((1, ["sitecustomize", "os_exit"]), (0, ["sitecustomize", "os_exit"] * 2)):
        assert cli.main(command) == 0
        shown = capsys.readouterr()
        assert [one["exploit"] for one in json.loads(shown.out)["attempts"]] == ["sitecustomize", "os_exit"]
        assert ("1 of 2 attempts were made by an earlier command" in shown.err) == bool(earlier)
        assert made == attempts


@pytest.mark.slow
def test_redteam_attacks_a_server_with_what_an_agent_can_see(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["redteam", url, "--only", "conftest,replace_tests,git_log,os_exit", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    by_id = {attempt["exploit"]: attempt for attempt in data["attempts"]}
    assert {attempt["reward"] for attempt in by_id.values()} == {0.0}
    assert by_id["conftest"]["detected"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["no/such/folder"], "no tasks.jsonl in no/such/folder: make one with `etude generate"),
        (["drill"], "the task set has no task with source files to attack"),
        (["x", "--only", "conftets"], "unknown exploit 'conftets'. Did you mean 'conftest'?"),
        (["x", "--only", ""], "--only names no exploit"),
        (["drll"], "make one with `etude generate --out drll`. Did you mean 'drill'?"),
        (["http://127.0.0.1:1"], "is the server running? `etude serve` starts one"),
        (["ftp://127.0.0.1"], "not a server's address"),
        (["http://127.0.0.1:1", "--twins"], "--twins"),
        (["http://127.0.0.1:1", "--sandbox", "process"], "--sandbox"),
        (["x", "--limit", "0"], "--limit"),
        (["x", "--sandbox", "bubblewrp"], "Did you mean 'bubblewrap'?"),
    ],
)
def test_redteam_prints_one_line_when_the_user_makes_a_mistake(
    arguments: list[str],
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["redteam", *arguments]) != 0
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and expected in errors[0], errors
