"""benchmarks/scale.py: what a large set costs follows from the reports of runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BUILD = {"builds": 2, "seconds": 40.0, "cpu_seconds": 72.0, "bytes": 50_000_000}


def write_run(folder: Path, tasks: int, cpu: float, builds: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "tasks.jsonl").write_bytes(b"x" * 1000 * tasks)
    report = {"candidates": 2 * tasks, "tasks": tasks, "cpu_seconds": cpu, "proposal_cpu_seconds": 10.0}
    report |= {"per_source": {"munch 4.0.0": {}}, "builds": builds}
    (folder / "report.json").write_text(json.dumps(report))
    return folder


def test_costs_are_those_of_the_runs_per_task_when_builds_are_added(root: Path, tmp_path: Path) -> None:
    built = write_run(tmp_path / "built", 10, 350.0, {"munch 4.0.0": BUILD})
    cached = write_run(tmp_path / "cached", 10, 1790.0, {})
    command = [sys.executable, str(root / "benchmarks/scale.py"), str(built), str(cached)]
    options = ["--tasks", "1000", "--price", "0.1", "--cores", "10", "--json"]
    costs = json.loads(subprocess.run([*command, *options], check=True, capture_output=True).stdout)["cost"]
    assert set(costs) == {"all runs", "built (cheapest)", "cached (dearest)"}
    cheap = costs["built (cheapest)"]
    # 1000 tasks of 36 CPU seconds, from 100 sources of 36 CPU seconds
    assert cheap["cpu_hours"] == 11.0 and round(cheap["usd"], 9) == 1.1
    assert (cheap["candidates"], cheap["sources"], cheap["rows_gb"], cheap["snapshots_gb"]) == (2000, 100, 0.001, 5.0)
    assert round(cheap["days"] * 240, 9) == 11.0
    assert costs["cached (dearest)"]["cpu_hours"] == 51.0
    assert costs["all runs"]["cpu_hours"] == 31.0
