"""A run that the kill-switch ended: what it leaves, and when it goes on."""

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
from etude.trainers.run.callbacks import METRICS, read_metrics
from etude.trainers.run.train import Result, run


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


@pytest.mark.parametrize("how", ["removed", "raised", "off"])
def test_a_stopped_run_goes_on_when_it_may(how: str, model: Path, drill_url: str, tmp_path: Path) -> None:
    tight, more = {"kl_to_base": 1e-9}, {"removed": 1e-9, "raised": 1e6, "off": 0.0}
    table = recipe(model, tmp_path, drill_url, learning_rate=1e-2) | {"safety": tight}
    first = play(table)
    assert first.stopped
    if how == "removed":
        (tmp_path / "stopped.json").unlink()
    second = play({**table, "safety": {"kl_to_base": more[how]}})
    assert second.resumed_from == first.steps
    assert json.loads((tmp_path / "result.json").read_text())["stopped"] == second.stopped
    if how == "removed":
        assert (second.steps, bool(second.stopped)) == (first.steps + 1, True)
    else:
        assert second.ok and second.steps == 4 and not (tmp_path / "stopped.json").exists()
        assert json.loads((tmp_path / "recipe.json").read_text())["safety"]["kl_to_base"] == more[how]
        with pytest.raises(RecipeError, match="holds a run that is done"):
            play({**table, "safety": {"kl_to_base": more[how]}})


class Poisoned(Scripted):
    """The loss of the third step is no number."""

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        loss = super()._compute_loss(model, inputs)
        return loss * float("nan") if self.model.training and self.state.global_step == 2 else loss


def test_weights_that_are_no_numbers_are_kept_nowhere(model: Path, drill_url: str, tmp_path: Path) -> None:
    table = recipe(model, tmp_path, drill_url, save_every=1)
    result = play(table, Poisoned)
    good = tmp_path / "checkpoints" / "checkpoint-2"
    left = f"loss is nan, its weights are not saved; {good} is the last good checkpoint"
    assert (result.steps, result.stopped) == (3, f"stopped at step 3: {left}")
    assert {path.name for path in good.parent.glob("checkpoint-*")} == {"checkpoint-1", "checkpoint-2"}
    assert not (tmp_path / "model").exists() and result.after is None
    assert left in (tmp_path / "report.html").read_text()
    assert [math.isnan(row["loss"]) for row in read_metrics(tmp_path / METRICS)] == [False, False, True]
    with pytest.raises(RecipeError, match=r"checkpoint-2 is the last good checkpoint; remove .*stopped.json to go on"):
        play(table)
    (tmp_path / "stopped.json").unlink()
    again = play(table)
    assert (again.ok, again.resumed_from, again.steps) == (True, 2, 4)
    assert all(torch.isfinite(value).all() for value in load_file(tmp_path / "model" / "model.safetensors").values())
