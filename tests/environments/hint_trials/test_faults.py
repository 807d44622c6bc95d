"""`etude hints causal` on a run that was played with faults on purpose."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from etude.environments.drill.tasks import DrillTasks
from etude.environments.hint_trials.measure import measure_hints
from etude.environments.runs.play import run_episodes

TASKS = DrillTasks(["chain"], level=3)


def test_the_past_of_a_trial_has_the_faults_of_its_run(tmp_path: Path) -> None:
    """Strike the second call and later ones; played again without faults, the past would differ."""
    run = tmp_path / "run"
    asyncio.run(run_episodes(TASKS, "stumbler", out=run, limit=2, faults="rate=0.5,seed=3"))
    injected = [
        error["injected"] for row in (run / "episodes.jsonl").open() for error in json.loads(row)["error_turns"]
    ]
    assert any(injected)
    result = asyncio.run(measure_hints(run, "noisy", out=run / "hints", k=1))
    trials = [json.loads(line) for line in (run / "hints" / "trials.jsonl").open()]
    assert result.ok and trials
    assert not any(trial["diverged"] for trial in trials)
