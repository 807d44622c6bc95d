"""Command ``etude annotate``: the table, the JSON, the page, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from etude.cli import app as cli


@pytest.fixture
def log(root: Path) -> Path:
    return root / "tests" / "data" / "logs" / "sdk" / "chat.json"


def test_annotate_prints_a_table_and_the_next_command(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["annotate", str(log), "--out", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr()
    (row,) = [line for line in shown.out.splitlines() if "openai" in line]
    assert [cell.strip() for cell in row.split("│")][2:8] == ["openai", "1", "7", "5", "5", "3"]
    assert f"next: etude report {tmp_path / 'run'} --out report.html" in shown.out
    assert shown.err == ""


def test_annotate_prints_json_and_writes_the_page(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    command = ["annotate", str(log), "--out", str(tmp_path / "run"), "--report", str(page), "--json"]
    assert cli.main(command) == 0
    report = json.loads(capsys.readouterr().out)
    (summary,) = report["files"]
    assert (report["ok"], summary["format"], summary["kinds"]["tool_not_found"]) == (True, "openai", 1)
    assert (report["report"]["out"], report["report"]["error_turns"]) == (str(page), 5)
    assert "there is no tool" in page.read_text()


def test_annotate_warns_about_lines_that_it_cannot_read(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "log.jsonl"
    broken.write_text(json.dumps(json.loads(log.read_text())) + "\n{\n")
    assert cli.main(["annotate", str(broken), "--out", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().err.startswith(f"warning: 1 not read, the first: {broken}:2 is not JSON")


def test_annotate_fails_when_one_of_the_named_logs_gives_no_episode(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["annotate", str(log), str(tmp_path / "none"), "--out", str(tmp_path / "run")]) == 1
    shown = capsys.readouterr()
    assert shown.err == f"error: {tmp_path / 'none'} does not exist; name a file or a folder of logs\n"
    assert (tmp_path / "run" / "episodes.jsonl").exists() and "openai" in shown.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["no/such.json"], "no/such.json does not exist; name a file or a folder of logs"),
        (["empty"], "empty holds no log of a known format"),
        (["README.md"], "README.md:1 is not JSON"),
        (["README.md", "--format", "opnai"], "unknown log format 'opnai'. Did you mean 'openai'?"),
        (["README.md", "--tools", "README.md"], "README.md holds no tool schemas"),
        ([], "Missing argument"),
    ],
)
def test_annotate_prints_one_line_when_the_user_makes_a_mistake(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "README.md").write_text("text\n")
    assert cli.main(["annotate", *arguments]) != 0
    shown = capsys.readouterr()
    assert expected in shown.err and shown.err.count("error: ") == 1 and "Traceback" not in shown.err
    assert not (tmp_path / "runs").exists()
