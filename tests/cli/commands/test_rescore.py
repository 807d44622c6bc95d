"""``etude rescore``: unchanged, changed, replayed, interrupted and unreadable runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.ledger_package import CORE, EXERCISE, FILES
from helpers.small_tasks import make_task, write_project

from etude.cli import app as cli
from etude.environments.snapshots import build_snapshot
from etude.environments.tasks.task_set import TaskSet, write_tasks

HIDDEN = "tests/test_hidden.py"


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the first row of a run."""
    changed = rows(folder)
    change(changed[0])
    (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in changed))


def rescore(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Any:
    """Return the JSON that ``etude rescore`` prints."""
    capsys.readouterr()
    assert cli.main(["rescore", *map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Four drills that an agent with mistakes played."""
    out = tmp_path / "runs" / "drills"
    assert cli.main(["run", "--tasks", "drill", "-a", "stumbler", "--limit", "4", "-o", str(out)]) == 0
    return out


def test_rescore_reports_no_change_when_the_code_is_the_same(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "episodes.jsonl").read_bytes()
    report = rescore(capsys, run)
    assert (report["episodes"], report["graded"], report["changed"], report["ok"]) == (4, 4, {}, True)
    assert (run / "episodes.jsonl").read_bytes() == before
    out = run.with_name("drills-rescored")
    old, new = rows(run), rows(out)
    assert [row.pop("settings")["rescored"]["line"] for row in new] == [1, 2, 3, 4]
    assert new == [{name: value for name, value in row.items() if name != "settings"} for row in old]
    assert cli.main(["report", str(out), "-o", str(out / "report.html")]) == 0


def test_rescore_names_the_episode_and_what_changed_when_the_record_was_older(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def age(row: dict[str, Any]) -> None:
        row["reward"]["value"], row["error_turns"] = 0.0, []

    expected = rows(run)[0]
    rewrite(run, age)
    report = rescore(capsys, run)
    assert report["changed"] == {"reward": 1, "error_turns": 1, "hints": 1}
    assert (report["reward_before"], report["reward"]) == (0.75, 1.0)
    (change,) = report["changes"]
    assert (change["episode_id"], change["task_id"]) == (expected["episode_id"], expected["task_id"])
    assert change["changes"]["reward"] == [0.0, 1.0]
    assert rows(run.with_name("drills-rescored"))[0]["error_turns"] == expected["error_turns"]


def test_rescore_resumes_when_it_was_interrupted(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run.with_name("drills-rescored")
    rescore(capsys, run)
    lines = (out / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (out / "episodes.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:40])
    (out / "rescore.json").unlink()
    report = rescore(capsys, run)
    assert (report["rescored"], report["earlier"], report["out"]) == (4, 2, str(out))
    assert [row["settings"]["rescored"]["line"] for row in rows(out)] == [1, 2, 3, 4]
    assert rescore(capsys, run)["out"] == str(run.with_name("drills-rescored-2"))


def test_rescore_leaves_an_episode_out_when_its_replay_differs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def differ(row: dict[str, Any]) -> None:
        row["turns"][0]["messages"][0]["content"] += " and more"

    rewrite(run, differ)
    report = rescore(capsys, run, code=1)
    assert list(report["failures"].values()) == ["replaying the recorded actions gave different results"]
    out = run.with_name("drills-rescored")
    assert [row["settings"]["rescored"]["line"] for row in rows(out)] == [2, 3, 4]
    assert not (out / "rescore.json").exists()


def test_rescore_replays_the_same_faults_when_the_run_had_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "faulty"
    options = ["-a", "oracle", "--limit", "6", "--faults", "rate=0.5,transient,seed=3"]
    assert cli.main(["run", "--tasks", "drill", *options, "-o", str(run)]) == 0
    assert any(row["injected"] for row in rows(run))
    report = rescore(capsys, run)
    assert (report["rescored"], report["changed"], report["failures"]) == (6, {}, {})


@pytest.mark.parametrize(
    ("change", "options", "expected"),
    [
        (lambda row: row.update(task_id="gone"), [], "no task set has the task 'gone'; name its folder with --tasks"),
        (lambda row: row.update(turns=3), [], "is not an episode"),
        (lambda row: None, ["--out", "."], "holds the old episodes; choose another --out"),
    ],
)
def test_rescore_writes_nothing_when_it_cannot_start(
    change: Callable[[dict[str, Any]], None],
    options: list[str],
    expected: str,
    run: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(run, change)
    monkeypatch.chdir(run)
    assert cli.main(["rescore", str(run), *options]) == 1
    assert expected in capsys.readouterr().err
    assert [path.name for path in run.parent.iterdir()] == ["drills"]


def test_rescore_refuses_a_folder_when_it_holds_another_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = run.with_name("other")
    assert cli.main(["run", "--tasks", "drill", "--limit", "1", "-o", str(other)]) == 0
    assert cli.main(["rescore", str(run), "--out", str(other)]) == 1
    assert "is not an episode of this run; choose another --out" in capsys.readouterr().err


@pytest.fixture(scope="module")
def coding_tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of one task, in which a function has no body."""
    source = write_project(tmp_path_factory.mktemp("source") / "ledger", FILES)
    files = {**FILES, "src/ledger/core.py": CORE}
    names = ["test_total", "test_total_of_nothing", "TestTotal::test_many"]
    task = make_task(build_snapshot(str(source)), files, {"src/ledger/core.py": EXERCISE}, HIDDEN, names)
    home = tmp_path_factory.mktemp("tasks")
    write_tasks(home, TaskSet([task]))
    return home


@pytest.mark.parametrize("agent", ["oracle", "cheater:conftest"])
def test_rescore_grades_a_repository_task_again_when_its_set_is_named(
    agent: str, coding_tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The solution is graded from its stored diff; the exploit's changes were refused, so it is played again."""
    run = tmp_path / "run"
    assert cli.main(["run", "--tasks", str(coding_tasks), "-a", agent, "-o", str(run)]) == 0
    stored = rows(run)[0]
    assert any(change["kind"] == "refused" for change in stored["diff"]) == (agent != "oracle")

    def forget(row: dict[str, Any]) -> None:
        row["reward"]["value"], row["findings"], row["grade"] = 0.5, [], None

    rewrite(run, forget)
    report = rescore(capsys, run, "--tasks", coding_tasks)
    assert report["changes"][0]["changes"]["reward"] == [0.5, stored["reward"]["value"]]
    again = rows(tmp_path / "run-rescored")[0]
    for name in ("reward", "findings", "diff", "error_turns"):
        assert again[name] == stored[name]


def test_rescore_annotates_a_log_of_another_tool_when_it_has_no_grade(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.json"
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{"}}
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "Error: not JSON"},
    ]
    log.write_text(json.dumps({"messages": messages}))
    run = tmp_path / "logs"
    assert cli.main(["annotate", str(log), "-o", str(run)]) == 0
    report = rescore(capsys, run)
    assert (report["rescored"], report["graded"], report["changed"]) == (1, 0, {})
