"""Curves of a training run as numbers: those of the report, read again only when the run has changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from etude.errors import TrainingRunError
from etude.trainers.report.run_series import run_series

LIMITS = ("kl_to_base", "hack_rate", "suspect_rate", "teacher_drift", "dollars", "hours", "dollars_per_hour")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    recipe = {
        "stage": "rl",
        "train": {"steps": 3, "prompts": 1, "group": 1, "micro": 1},
        "channels": {"rlvr": {"start": 1.0, "end": 1.0}},
        "safety": dict.fromkeys(LIMITS, 0.0) | {"kl_to_base": 0.5},
    }
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    write_steps(tmp_path, 2)
    return tmp_path


def write_steps(folder: Path, number: int) -> None:
    rows = [{"step": n, "reward": n / 4, "kl_good_turns": n / 8, "loss": 1.0} for n in range(1, number + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_series_are_the_points_of_each_chart_with_its_limit(folder: Path) -> None:
    series = run_series(folder)
    charts = {chart["title"]: chart for section in series["sections"] for chart in section["charts"]}
    assert charts["reward"]["series"] == [{"name": "reward", "points": [[1, 0.25], [2, 0.5]]}]
    assert (charts["reward"]["limit"], charts["KL to the base on good turns"]["limit"]) == (None, 0.5)
    assert ["total loss", "1"] in [pair for section in series["sections"] for pair in section["constant"]]
    assert (series["steps"], series["state"][0]) == ([1, 2], "running")
    json.dumps(series, allow_nan=False)


def test_series_follow_a_run_that_grows(folder: Path) -> None:
    before = run_series(folder)
    assert run_series(folder) is before
    write_steps(folder, 3)
    assert run_series(folder)["steps"] == [1, 2, 3]


def test_series_of_a_folder_without_a_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingRunError, match="holds no training run"):
        run_series(tmp_path)
