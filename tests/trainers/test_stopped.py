"""Stopped runs: what the kill switch leaves behind, and when a stopped run may resume."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.scripted_policy import Scripted, base
from safetensors.torch import load_file

from etude.errors import RecipeError
from etude.trainers.recipe.load import parse
from etude.trainers.report.run_files import METRICS, read_metrics
from etude.trainers.run.records import Result
from etude.trainers.run.train import run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


def recipe(folder: Path, out: Path, url: str, **train: Any) -> dict[str, Any]:
    return {
        "out": str(out),
        "model": {"name": str(folder), "template": {"enable_thinking": False}},
        "environment": {"url": url},
        "train": {"steps": 4, "prompts": 2, "group": 2, "micro": 2, "save_every": 2, "evaluate_tasks": 1, **train},
        "generation": {"max_ids": 6000, "max_turn_ids": 400},
    }


def play(table: dict[str, Any], kind: type[Scripted] = Scripted) -> Result:
    return run(parse(table), trainer=kind)


@pytest.mark.parametrize("remedy", ["removed", "raised", "off"])
def test_stopped_run_resumes_when_its_limit_allows_it(remedy: str, model: Path, drill_url: str, tmp_path: Path) -> None:
    tight, limits = {"kl_to_base": 1e-9}, {"removed": 1e-9, "raised": 1e6, "off": 0.0}
    table = recipe(model, tmp_path, drill_url, learning_rate=1e-2) | {"safety": tight}
    first = play(table)
    assert first.stopped
    if remedy == "removed":
        (tmp_path / "stopped.json").unlink()
    second = play({**table, "safety": {"kl_to_base": limits[remedy]}})
    assert second.resumed_from == first.steps
    assert json.loads((tmp_path / "result.json").read_text())["stopped"] == second.stopped
    if remedy == "removed":
        assert (second.steps, bool(second.stopped)) == (first.steps + 1, True)
    else:
        assert second.ok and second.steps == 4 and not (tmp_path / "stopped.json").exists()
        assert json.loads((tmp_path / "recipe.json").read_text())["safety"]["kl_to_base"] == limits[remedy]
        with pytest.raises(RecipeError, match="holds a finished run"):
            play({**table, "safety": {"kl_to_base": limits[remedy]}})


class Diverging(Scripted):
    """Trainer whose loss is NaN in the third step."""

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        loss = super()._compute_loss(model, inputs)
        return loss * float("nan") if self.model.training and self.state.global_step == 2 else loss


def test_weights_that_are_not_finite_are_saved_nowhere(model: Path, drill_url: str, tmp_path: Path) -> None:
    table = recipe(model, tmp_path, drill_url, save_every=1)
    result = play(table, Diverging)
    good = tmp_path / "checkpoints" / "checkpoint-2"
    reason = f"loss is nan, its weights are not saved; {good} is the last good checkpoint"
    assert (result.steps, result.stopped) == (3, f"stopped at step 3: {reason}")
    assert {path.name for path in good.parent.glob("checkpoint-*")} == {"checkpoint-1", "checkpoint-2"}
    assert not (tmp_path / "model").exists() and result.after is None
    assert reason in (tmp_path / "report.html").read_text()
    assert [math.isnan(row["loss"]) for row in read_metrics(tmp_path / METRICS)] == [False, False, True]
    with pytest.raises(RecipeError, match=r"checkpoint-2 is the last good checkpoint; remove .*stopped.json to resume"):
        play(table)
    (tmp_path / "stopped.json").unlink()
    again = play(table)
    assert (again.ok, again.resumed_from, again.steps) == (True, 2, 4)
    assert all(torch.isfinite(value).all() for value in load_file(tmp_path / "model" / "model.safetensors").values())
