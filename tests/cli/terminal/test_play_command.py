"""``etude play`` with a scripted stdin: solved, erring, resumed, interrupted and refused plays."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.ledger_package import CORE, EXERCISE, FILES
from helpers.small_tasks import make_task, write_project

from etude.cli import app as cli
from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import DrillTasks
from etude.environments.snapshots import build_snapshot
from etude.environments.tasks.task_set import TaskSet, write_tasks

TASK = "drill-choose-0"


def solution() -> list[str]:
    """Return the lines that solve the drill."""
    solved = DrillSession.solve(DrillTasks().by_id(TASK))
    calls = [planned for action in solved.actions for planned in action["tool_calls"]] + [solved.submission]
    return [f"{planned['name']} {json.dumps(planned['arguments'])}" for planned in calls]


def play(monkeypatch: pytest.MonkeyPatch, lines: list[str], *arguments: object) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return cli.main(["play", *map(str, arguments)])


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]


def test_play_grades_and_saves_an_episode_when_it_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(monkeypatch, solution(), TASK, "-o", tmp_path / "run", "--json") == 0
    shown = capsys.readouterr()
    result = json.loads(shown.out)
    assert (result["reward"], result["end"], result["task_id"], result["ok"]) == (1.0, "submit", TASK, True)
    (row,) = rows(tmp_path / "run")
    assert (row["agent"], row["sample"], row["reward"]["value"]) == ("person", 0, 1.0)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "episodes.jsonl",
        "played_tasks.jsonl",
        "summary.json",
    ]
    assert cli.main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "report.html")]) == 0
    assert TASK in (tmp_path / "report.html").read_text()


def test_play_shows_the_hint_when_a_turn_errs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(monkeypatch, ["sbmit 1", *solution()], TASK, "-o", tmp_path / "run") == 0
    shown = capsys.readouterr().out
    (error,) = rows(tmp_path / "run")[0]["error_turns"]
    assert error["kind"] == "tool_not_found"
    assert f"hint: {error['hints'][0]['text']}" in shown


def test_play_hides_the_hints_when_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(monkeypatch, ["sbmit 1", *solution()], TASK, "-o", tmp_path / "run", "--no-hints") == 0
    assert "hint: " not in capsys.readouterr().out
    (row,) = rows(tmp_path / "run")
    assert (len(row["error_turns"]), row["settings"]["annotate"]) == (1, "state")


def test_play_takes_the_next_drill_when_only_the_environment_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert play(monkeypatch, ["submit 1"], "drill", "-o", tmp_path / "run") == 0
    assert [row["task_id"] for row in rows(tmp_path / "run")] == [task.task_id for task in list(DrillTasks())[:2]]


def test_play_adds_a_sample_when_the_task_was_played_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        assert play(monkeypatch, ["submit 1"], TASK, "-o", tmp_path / "run") == 0
    assert [row["sample"] for row in rows(tmp_path / "run")] == [0, 1]


@pytest.mark.parametrize(("last", "code"), [(["/quit"], 0), ([], 1)])
def test_play_resumes_when_the_user_left(
    last: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert play(monkeypatch, ["sbmit 1", *last], "drill", "-o", out) == code
    left = capsys.readouterr()
    assert f"turns kept: 1; nothing is graded yet. To resume: etude play drill --out {out}" in left.out
    assert ("error: the input ended before the episode" in left.err) == (not last)
    assert not (out / "episodes.jsonl").exists()
    assert play(monkeypatch, solution(), "drill", "-o", out) == 0
    shown = capsys.readouterr().out
    assert "turns played again: 1" in shown
    assert "[turn 2] > " in shown
    (row,) = rows(out)
    assert (len(row["turns"]), row["reward"]["value"]) == (1 + len(solution()), 1.0)
    assert not list(out.glob("unfinished-*"))


def test_play_keeps_the_turns_when_it_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "etude.cli", "play", TASK, "-o", str(out)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env={**os.environ}, **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write("sbmit 1\n")
        process.stdin.flush()
        while not process.stdout.readline().startswith("hint: "):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        shown, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "turns kept: 1" in shown
    assert errors == "error: Interrupted. Run the same command again to resume.\n"
    assert play(monkeypatch, solution(), TASK, "-o", out) == 0
    assert rows(out)[0]["reward"]["value"] == 1.0


def test_play_says_what_is_wrong_when_a_line_is_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ['submit answer="1', "", "/halp", "/task", "/help", "submit answer=1"]
    assert play(monkeypatch, lines, TASK, "-o", tmp_path / "run") == 0
    shown = capsys.readouterr().out
    assert "not played: a quote is not closed" in shown
    assert "unknown command /halp; there are /help, /task and /quit" in shown
    assert len(rows(tmp_path / "run")[0]["turns"]) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["dril"], "unknown task or environment 'dril'. Did you mean 'drill'?"),
        (["small-x"], "name the folder of other tasks with --tasks"),
        (["small-x", "--tasks", "tasks"], "no tasks.jsonl in tasks"),
        ([TASK, "--faults", "timout"], "Did you mean 'timeout'?"),
        ([TASK, "--out", "/proc/none/x"], "cannot write to /proc/none/x"),
    ],
)
def test_play_prints_one_line_when_it_cannot_start(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert play(monkeypatch, ["submit 1"], *arguments) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert expected in line
    assert list(tmp_path.iterdir()) == []


def test_play_refuses_to_resume_when_the_settings_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(monkeypatch, ["sbmit 1", "/quit"], TASK, "-o", tmp_path) == 0
    assert play(monkeypatch, ["submit 1"], TASK, "-o", tmp_path, "--no-hints") == 1
    assert "was played with --annotate observation, not --annotate state" in capsys.readouterr().err


def test_play_solves_a_repository_task_when_its_set_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_project(tmp_path / "source" / "ledger", FILES)
    files = {**FILES, "src/ledger/core.py": CORE}
    names = ["test_total", "test_total_of_nothing", "TestTotal::test_many"]
    task = make_task(
        build_snapshot(str(source)), files, {"src/ledger/core.py": EXERCISE}, "tests/test_hidden.py", names
    )
    write_tasks(tmp_path / "tasks", TaskSet([task]))
    lines = ["bash ls src", "write_file path=src/ledger/core.py content=<<END", *CORE.splitlines(), "END"]
    out = tmp_path / "run"
    assert play(monkeypatch, lines[:1] + ["/quit"], task.task_id, "--tasks", tmp_path / "tasks", "-o", out) == 0
    lines = [*lines[1:], "submit"]
    assert play(monkeypatch, lines, task.task_id, "--tasks", tmp_path / "tasks", "-o", out) == 0
    assert "[turn 3] > submit" in capsys.readouterr().out
    (row,) = rows(out)
    assert (row["reward"]["value"], [change["path"] for change in row["diff"]]) == (1.0, ["src/ledger/core.py"])
