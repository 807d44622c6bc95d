"""Commands ``etude view``, ``etude fork`` and ``etude report`` with training runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from helpers.viewer_runs import marked_row, played, written

from etude.cli import app as cli
from etude.cli.commands.view import run_folders


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(tmp_path_factory.mktemp("run"))


def training_run(folder: Path) -> Path:
    """Write a training run of three steps with an episode of the second."""
    written(folder, marked_row(agent="policy", settings={"step": 2}))
    weight = {"start": 1.0, "end": 1.0}
    train = {"steps": 3, "prompts": 1, "group": 1, "micro": 1}
    recipe = {"stage": "rl", "train": train, "channels": {"rlvr": weight}, "safety": {"kl_to_base": 0.0}}
    limits = dict.fromkeys(("kl_to_base", "hack_rate", "suspect_rate", "teacher_drift", "dollars", "hours"), 0.0)
    (folder / "recipe.json").write_text(json.dumps({**recipe, "safety": {**limits, "dollars_per_hour": 0.0}}))
    rows = [{"step": step, "reward": step / 4, "loss": 1.0 / step} for step in (1, 2, 3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_view_prints_its_address_and_serves_until_it_is_stopped(run: Path, number: signal.Signals) -> None:
    code = "import sys; from etude.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "view", str(run), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("viewing http://127.0.0.1:"), line + process.stderr.read()
        url = line.split()[1]
        rows = httpx.get(f"{url}data/index", headers={"X-Etude-View": "1"}).json()["rows"]
        assert len(rows) == 6 and '<div id="app">' in httpx.get(url).text
        process.send_signal(number)
        assert process.wait(30) in (0, 128 + number, -number)
        assert process.stderr.read().count("\n") <= 1
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["view", "no/such"], "there is no no/such; play a run with `etude run --out no/such`"),
        (["fork", "no/such", "--episode", "0", "--turn", "0"], "cannot read"),
    ],
)
def test_command_prints_one_line_when_there_is_no_run(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and expected in line


def test_view_finds_the_runs_in_a_folder_and_their_forks(run: Path, tmp_path: Path) -> None:
    for name in ("b", "a", "deep/c", "a/forks"):
        written(tmp_path / name, marked_row())
    training_run(tmp_path / "train")
    names = [str(folder.relative_to(tmp_path)) for folder in run_folders([tmp_path])]
    assert sorted(names) == ["a", "a/forks", "b", "deep/c", "train"]
    assert run_folders([run, run]) == [run]


def test_fork_writes_an_episode_and_prints_its_reward(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path), "--json"]
    for hint, reward in (("Read it.", 1.0), ("", 0.0)):
        command = ["fork", str(run), "--episode", "0", "--turn", "1", "--agent", "noisy:0,1", "--hint", hint, *out]
        assert cli.main(command) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["reward"], shown["hint"], shown["turn"]) == (reward, bool(hint), 1)
    assert len((tmp_path / "episodes.jsonl").read_text().splitlines()) == 2


def test_fork_names_the_episodes_that_there_are(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fork", str(run), "--episode", "99", "--turn", "0"]) == 1
    assert "has no episode 99" in capsys.readouterr().err


def test_report_of_a_training_run_with_episodes_has_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = training_run(tmp_path / "train")
    assert cli.main(["report", str(folder), "--json"]) == 0
    written_report = json.loads(capsys.readouterr().out)
    assert (written_report["out"], written_report["episodes"]) == (str(folder / "report.html"), 1)


def test_report_reveals_hidden_tests_only_when_asked(tmp_path: Path) -> None:
    run, sizes = written(tmp_path / "run", marked_row()), []
    for options in ([], ["--reveal"]):
        assert cli.main(["report", str(run), "--out", str(tmp_path / "page.html"), *options]) == 0
        sizes.append((tmp_path / "page.html").stat().st_size)
    assert sizes[1] > sizes[0]
