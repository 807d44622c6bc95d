"""The way from a run to a learned chooser and back, through real trials."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from etude.cli import app as cli
from etude.environments import agents
from etude.environments.actions import call, turn
from etude.environments.agents.scripted import Script, solution
from etude.environments.drill.tasks import DrillTasks
from etude.environments.hint_trials.hint_candidates import Text
from etude.environments.hint_trials.measure import measure_hints
from etude.environments.hint_trials.report import CausalReport
from etude.environments.runs.play import run_episodes
from etude.models import Hint, Task, Turn
from etude.research.hint_chooser import worlds
from etude.research.hint_chooser.__main__ import main
from etude.research.hint_chooser.chooser import Chooser
from etude.research.hint_chooser.off_policy import learn
from etude.research.hint_chooser.trial_logs import read_choices

TASKS = DrillTasks(["choose"], level=1)


def played(out: Path, limit: int = 2) -> Path:
    asyncio.run(run_episodes(TASKS, "noisy", out=out, limit=limit))
    return out


def measured(run: Path, name: str = "noisy", **more: Any) -> CausalReport:
    return asyncio.run(measure_hints(run, name, **{"out": run / "hints", "k": 2, **more}))


TEXTS = [
    Text(Hint(text="Step back and read the tools again.", template="step-back")),
    Text(Hint(text="Hurry.", template="hurry")),
]


class Choosy:
    """An agent that is helped by a candidate text where a call was malformed, and by templates elsewhere."""

    def __call__(self, task: Task, *, past: Sequence[Turn], hint: str, seed: int) -> agents.Agent:
        odd = int(hashlib.sha256(task.task_id.encode()).hexdigest(), 16) % 2
        helped = hint == TEXTS[0].hint.text if odd else bool(hint) and hint not in [text.hint.text for text in TEXTS]
        solved = random.Random(seed).random() < (0.9 if helped else 0.2)
        right = solution(task)
        actions = [*right.actions, turn("", right.submission)] if solved else [turn("", call("submit", answer="?"))]
        return Script(actions)


def test_chooser_is_learned_from_trials_and_marks_its_hints(tmp_path: Path) -> None:
    run = played(tmp_path, 6)
    measured(run, "choosy", agent=Choosy(), k=4, choose="uniform", texts=TEXTS)
    choices = read_choices([run / "hints"])
    assert len(choices) == 24 and all(choice.propensity == pytest.approx(1 / 3) for choice in choices)
    found = learn(choices, draws=20)
    assert found.rows["train"] + found.rows["held_out"] == 24
    out = tmp_path / "chosen"
    measured(run, "choosy", agent=Choosy(), k=2, choose=found.chooser, texts=TEXTS, out=out)
    rows = [json.loads(line) for line in (out / "hints.jsonl").read_text().splitlines()]
    for row in rows:
        by_arm = {hint["template"]: hint for hint in row["error_turn"]["hints"]}
        assert len(by_arm) == 3
        for score in row["scores"]:
            assert by_arm.pop(score["arm"])["source"] == "learned"
        assert all((hint["source"], hint["score"]) == ("template", None) for hint in by_arm.values())


def test_draws_are_logged_with_the_choosers_own_propensities(tmp_path: Path) -> None:
    run = played(tmp_path, 1)
    chooser = Chooser(weights={"hurry": {"": 1.0}}, epsilon=0.3, temperature=0.5)
    measured(run, k=6, choose=chooser, texts=TEXTS)
    for choice in read_choices([run / "hints"]):
        assert choice.propensity == pytest.approx(chooser.probabilities(choice.context, choice.arms)[choice.arm])


def test_certain_hint_is_no_choice(tmp_path: Path) -> None:
    run = played(tmp_path, 1)
    measured(run, texts=TEXTS)
    assert read_choices([run / "hints"]) == []


@pytest.mark.slow
def test_the_learned_choice_earns_more_than_its_rivals_on_held_out_logs_and_when_it_is_played(
    tmp_path: Path,
) -> None:
    """A small share of what the whole test plays; the truth of this world is 0.84, 0.52 and 0.44."""
    logs = asyncio.run(worlds.episodes("train", 0, 90, tmp_path / "train"))
    fresh = asyncio.run(worlds.episodes("eval", 0, 25, tmp_path / "eval"))
    found = asyncio.run(worlds.compared("strong", 0, logs, fresh, 4, tmp_path))
    for rival in ("random", "best single"):
        on_logs = found.held_out[rival].gain
        assert on_logs is not None and on_logs.low > 0 and found.gain[rival].low > 0
        assert found.worth["learned"] > found.worth[rival] + 0.1


def test_the_commands_lead_from_a_run_to_a_chooser_and_to_trials_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, texts, chooser = played(tmp_path / "run", 6), tmp_path / "texts.jsonl", tmp_path / "chooser.json"
    texts.write_text("".join(json.dumps({"id": text.id, "text": text.hint.text}) + "\n" for text in TEXTS))
    common = ["hints", "causal", str(run), "--agent", "noisy", "--texts", str(texts), "--json"]
    assert cli.main([*common, "--k", "3", "--choose", "uniform"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["measured"], found["valid"]) == (True, 6, {"with": 18, "without": 18})
    assert main([str(run / "hints"), "--out", str(chooser), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["policies"]) == {"learned", "explore", "random", "best single"}
    (tmp_path / "learned_policy.py").write_text(
        "from pathlib import Path\nfrom etude.research.hint_chooser.chooser import Chooser\n"
        f"policy = Chooser.model_validate_json(Path({str(chooser)!r}).read_bytes())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    learned = ["--choose", "learned_policy:policy", "--out", str(tmp_path / "learned")]
    assert cli.main([*common, "--k", "1", *learned]) == 0
    capsys.readouterr()
    assert cli.main(["hints", "eval", str(run), "--json"]) == 0
    kinds = json.loads(capsys.readouterr().out)["kinds"]
    assert sum(row["error_turns"] for row in kinds) == 6


def test_the_command_reports_a_missing_log_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere"), "--out", str(tmp_path / "chooser.json")]) == 1
    assert "there is no" in capsys.readouterr().err
