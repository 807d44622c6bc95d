"""Demo: the whole chain on a small local package, its server, its summary and its shipped base."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from helpers.paths import DATA

from etude.cli import app as cli
from etude.cli.demo.display import PlainDisplay, summary_lines
from etude.cli.demo.players import served
from etude.cli.demo.stages import PLAY, STAGES, AgentRow, Demo, Stage, Training
from etude.cli.demo.tour import run_demo
from etude.cli.demo.training import BASE
from etude.cli.progress import Progress
from etude.environments.tasks.task_set import TaskSet
from etude.errors import DemoError
from etude.generators.validation.audit import EXPECTED
from etude.intervals import Interval

STUMBLER = {("stumbler", "tasks"): 1.0, ("stumbler", "drill"): 1.0}
SCALES = DATA / "scales"


class Recorded:
    """Display that notes its stages and phases."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.phases: list[str] = []

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[Progress]:
        self.stages.append(stage)
        yield lambda phase, done, total: self.phases.append(phase)


@pytest.mark.slow
def test_demo_generates_serves_plays_and_grades_a_package(tmp_path: Path) -> None:
    display = Recorded()
    demo = run_demo(str(SCALES), display, count=3, out=tmp_path, train=False)
    assert demo.ok
    rewards = {(row.agent, row.plays): row.mean_reward for row in demo.rows}
    assert rewards == {**{(agent, "tasks"): reward for agent, reward in EXPECTED.items()}, **STUMBLER}
    assert demo.tasks == len(TaskSet.load(tmp_path)) > 0
    assert display.stages == list(STAGES[:-1])
    assert list(demo.seconds) == [stage.title for stage in STAGES[:-1]]
    assert "episodes over OpenEnv" in display.phases


@pytest.mark.slow
def test_demo_report_shows_every_episode(tmp_path: Path) -> None:
    demo = run_demo(str(SCALES), Recorded(), count=1, out=tmp_path, train=False)
    rows = [json.loads(line) for line in (tmp_path / "episodes.jsonl").read_text().splitlines()]
    page = Path(demo.report).read_text()
    assert demo.report == str(tmp_path / "report.html")
    assert page.count("<article") == len(rows) == sum(row.episodes for row in demo.rows)
    # A finding is listed at the top of its episode, and also at its turn when it has one.
    findings = [finding for row in rows for finding in row["findings"]]
    at_turns = [finding for finding in findings if finding["turn"] is not None]
    assert page.count('<li class="finding') == len(findings) + len(at_turns) > 0
    assert page.count('<li class="error') == sum(len(row["error_turns"]) for row in rows)
    assert '<tr class="added">' in page and '<tr class="removed">' in page
    for task in TaskSet.load(tmp_path):
        assert not [test for test in task.FAIL_TO_PASS if test in page]


@pytest.mark.slow
def test_served_says_why_when_the_server_cannot_start(tmp_path: Path) -> None:
    with (
        pytest.raises(DemoError, match="did not start"),
        served(["--tasks", str(tmp_path)], tmp_path / "server.log"),
    ):
        pass


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5.0, trust_env=False).is_success
    except httpx.HTTPError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_served_leaves_no_server_when_its_process_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom etude.cli.demo.players import served\n"
        "from etude.cli.options import sigterm_interrupts\n"
        f"with sigterm_interrupts(), served(['--env', 'drill'], Path({str(tmp_path / 'log')!r})) as url:\n"
        "    print(url, flush=True)\n    time.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert answers(url)
    os.kill(process.pid, number)
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 30
    while answers(url) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not answers(url)


TRAINING = Training(
    24, 48.2, 627_264, 64, Interval(0.25, 0.19, 0.32), Interval(0.05, 0.02, 0.1), Interval(0.75, 0.63, 0.84),
    Interval(0.91, 0.81, 0.96), "runs/demo/train/report.html",
)  # fmt: skip
DEMO = Demo(
    source="pypi:cachetools==5.5.0", tests=215, tasks=3, candidates=4,
    rows=[AgentRow("oracle", "tasks", 3, 1.0, 1.0, 0, 0, True), AgentRow("noop", "tasks", 3, 1.0, 0.0, 2, 2, False)],
    sandbox="bubblewrap", report="runs/demo/report.html", seconds={}, training=TRAINING, ok=False,
)  # fmt: skip


def test_summary_shows_before_and_after_with_intervals() -> None:
    text = "\n".join(summary_lines(DEMO, Path("runs/demo")))
    assert "turns that go wrong   25 % [19 to 32]  ->    5 % [2 to 10]" in text
    assert "drills solved         75 % [63 to 84]  ->   91 % [81 to 96]" in text
    assert "within chance" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_summary_marks_an_agent_with_a_wrong_reward() -> None:
    lines = summary_lines(DEMO, Path("runs/demo"))
    [noop] = [line for line in lines if " noop " in line]
    assert noop.endswith("reward 1.00 NOT 0, a defect")


def test_summary_admits_a_change_within_chance() -> None:
    same = Training(24, 48.2, 1, 64, *[Interval(0.25, 0.19, 0.32)] * 4, "report.html")
    assert not same.learned
    demo = Demo(**{**DEMO.__dict__, "training": same})
    assert "within chance" in "\n".join(summary_lines(demo, Path("runs/demo")))


def test_plain_display_explains_each_stage(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainDisplay().stage(PLAY) as progress:
        progress("episodes over OpenEnv", 0, 10)
    first, second, last = capsys.readouterr().err.splitlines()
    assert first == f"[4/5] {PLAY.title} (about 20 s): {PLAY.meaning}"
    assert second == "[4/5]: episodes over OpenEnv"
    assert last.startswith("[4/5] done in ")


def test_base_is_the_one_on_its_card() -> None:
    weights = (BASE / "model.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest() in (BASE / "README.md").read_text()
    assert len(weights) < 5_000_000


def test_demo_recipe_finds_its_base_from_any_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "demo", "--dry-run", "--json"]) == 0
    recipe = json.loads(capsys.readouterr().out)["recipe"]
    assert recipe["channels"]["distillation"]["start"] > 0
    assert recipe["model"]["name"] == str(BASE)


@pytest.mark.slow
def test_demo_training_learns(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from etude.cli.demo.training import train

    training = train(tmp_path / "train", lambda phase, done, total: None, seed=1)
    assert training is not None
    assert training.error_turns_after.value <= training.error_turns_before.value / 2
    assert training.solved_after.value > training.solved_before.value
