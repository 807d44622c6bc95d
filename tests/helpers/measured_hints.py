"""Runs of the agent ``noisy`` in drills, and measurements of their hints."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from etude.environments.drill.tasks import DrillTasks
from etude.environments.hint_trials.measure import measure_hints
from etude.environments.hint_trials.report import CausalReport
from etude.environments.runs.play import run_episodes

TASKS = DrillTasks(["choose"], level=1)


def played(out: Path, limit: int = 2, agent: str = "noisy", tasks: DrillTasks = TASKS) -> Path:
    """Play drills, and return the folder of the run."""
    asyncio.run(run_episodes(tasks, agent, out=out, limit=limit))
    return out


def measured(run: Path, name: str = "noisy", **more: Any) -> CausalReport:
    """Measure the hints of a run in its folder ``hints``, with two continuations of each kind by default."""
    return asyncio.run(measure_hints(run, name, **{"out": run / "hints", "k": 2, **more}))


def trials(run: Path) -> list[dict[str, Any]]:
    """Return the trials of the measurement in a run's folder."""
    return [json.loads(line) for line in (run / "hints" / "trials.jsonl").read_text().splitlines()]
