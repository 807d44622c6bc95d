"""Computed in bfloat16, with activations kept or made again: weights stay float32, and all channels run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.scripted_policy import Scripted, base
from transformers import AutoModelForCausalLM

from etude.trainers.recipe.load import parse
from etude.trainers.run.callbacks import read_metrics
from etude.trainers.run.train import run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


class Noting(Scripted):
    """Whether evaluations are computed in bfloat16: also that before the first step, which wraps the model in it."""

    evaluated: list[bool] = []

    def _generate_turns(self, prompts: Any, rooms: Any) -> Any:
        if not self.model.training:
            self.evaluated.append(torch.is_autocast_enabled("cpu"))
        return super()._generate_turns(prompts, rooms)


def trained(
    model: Path, url: str, out: Path, /, kind: type[Scripted] = Scripted, **tables: Any
) -> list[dict[str, Any]]:
    """The metrics of two steps of two micro-batches, with k1 and the guards on."""
    table: dict[str, Any] = {
        "out": str(out),
        "model": {"name": str(model), "template": {"enable_thinking": False}},
        "environment": {"url": url},
        "train": {"steps": 2, "prompts": 2, "group": 4, "micro": 4, "learning_rate": 1e-6, "evaluate_tasks": 1},
        "objective": {"kl": "k1_in_reward", "kl_weight": 0.01},
        "channels": {"rlvr": 1.0, "distillation": 1.0},
        "distillation": {"gate": False, "teacher": "ema"},
        "generation": {"max_ids": 6000, "max_turn_ids": 400},
        "safety": {"kl_to_base": 10.0},
    }
    for name, value in tables.items():
        table[name] = {**table[name], **value}
    assert run(parse(table), trainer=kind).ok
    return read_metrics(out / "metrics.jsonl")


def test_bfloat16_is_computed_in_and_weights_are_float32(model: Path, drill_url: str, tmp_path: Path) -> None:
    """Steps of 1e-6 would be rounded away in most of them."""
    found = trained(model, drill_url, tmp_path / "bf16", Noting, model={"dtype": "bfloat16"})
    assert len(Noting.evaluated) > 2 and all(Noting.evaluated)
    exact = trained(model, drill_url, tmp_path / "fp32")
    before, after = (AutoModelForCausalLM.from_pretrained(path) for path in (model, tmp_path / "bf16" / "model"))
    assert {value.dtype for value in after.parameters()} == {torch.float32}
    moved = [(one != other).float().mean() for one, other in zip(before.parameters(), after.parameters(), strict=True)]
    assert float(torch.stack(moved).mean()) > 0.5
    for name in ("distillation/loss", "distillation/teacher_gain", "grad_norm"):
        assert found[0][name] == pytest.approx(exact[0][name], rel=0.1) and found[0][name] != exact[0][name]
    assert found[0]["distillation/teacher_tokens"] == exact[0]["distillation/teacher_tokens"], "packed as well"


def test_activations_made_again_change_nothing(model: Path, drill_url: str, tmp_path: Path) -> None:
    kept, again = (
        trained(model, drill_url, tmp_path / str(each), train={"gradient_checkpointing": each})
        for each in (False, True)
    )
    for one, other in zip(kept, again, strict=True):
        assert {"gradient/distillation", "gradient/rlvr"} <= one.keys() or one["step"] > 1
        for name in {"loss", "grad_norm", "gradient/distillation", "gradient/rlvr", "distillation/loss"} & one.keys():
            assert one[name] == pytest.approx(other[name], rel=1e-4, abs=1e-7), name


def test_a_step_is_summed_over_its_micro_batches(model: Path, drill_url: str, tmp_path: Path) -> None:
    """Metrics of sites are those of the step, however it is cut."""
    whole, parts = (trained(model, drill_url, tmp_path / str(size), train={"micro": size}) for size in (8, 2))
    for name in ("distillation/loss", "distillation/sites", "distillation/tokens", "distillation/divergence"):
        assert whole[0][name] == pytest.approx(parts[0][name], rel=1e-4), name
    assert whole[0]["distillation/sites"] == whole[0]["distillation/chosen"]
