"""Precision: bfloat16 computation with float32 weights, and activations that are stored or computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.scripted_policy import Scripted, base
from transformers import AutoModelForCausalLM

from etude.trainers.recipe.load import parse
from etude.trainers.report.run_files import read_metrics
from etude.trainers.run.train import run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


class RecordsPrecision(Scripted):
    """Trainer that records whether evaluations run in bfloat16; the first step of training wraps the model in it."""

    evaluated: list[bool] = []

    def _generate_turns(self, prompts: Any, rooms: Any) -> Any:
        if not self.model.training:
            self.evaluated.append(torch.is_autocast_enabled("cpu"))
        return super()._generate_turns(prompts, rooms)


def trained(
    model: Path, url: str, out: Path, /, kind: type[Scripted] = Scripted, **tables: Any
) -> list[dict[str, Any]]:
    """Train for two steps of two micro-batches, with k1 and the limits on, and return the metrics."""
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


def test_weights_are_float32_when_the_computation_is_bfloat16(model: Path, drill_url: str, tmp_path: Path) -> None:
    """In bfloat16, steps of 1e-6 would be rounded away for most weights."""
    rounded = trained(model, drill_url, tmp_path / "bf16", RecordsPrecision, model={"dtype": "bfloat16"})
    assert len(RecordsPrecision.evaluated) > 2 and all(RecordsPrecision.evaluated)
    exact = trained(model, drill_url, tmp_path / "fp32")
    before, after = (AutoModelForCausalLM.from_pretrained(path) for path in (model, tmp_path / "bf16" / "model"))
    assert {value.dtype for value in after.parameters()} == {torch.float32}
    pairs = zip(before.parameters(), after.parameters(), strict=True)
    changed = [(old != new).float().mean() for old, new in pairs]
    assert float(torch.stack(changed).mean()) > 0.5
    for name in ("distillation/loss", "distillation/teacher_gain", "grad_norm"):
        assert rounded[0][name] == pytest.approx(exact[0][name], rel=0.1) and rounded[0][name] != exact[0][name]
    assert rounded[0]["distillation/teacher_tokens"] == exact[0]["distillation/teacher_tokens"], "both are packed"


def test_gradient_checkpointing_does_not_change_the_metrics(model: Path, drill_url: str, tmp_path: Path) -> None:
    plain, checkpointed = (
        trained(model, drill_url, tmp_path / str(on), train={"gradient_checkpointing": on}) for on in (False, True)
    )
    names = {"loss", "grad_norm", "gradient/distillation", "gradient/rlvr", "distillation/loss"}
    for row, other in zip(plain, checkpointed, strict=True):
        assert {"gradient/distillation", "gradient/rlvr"} <= row.keys() or row["step"] > 1
        for name in names & row.keys():
            assert row[name] == pytest.approx(other[name], rel=1e-4, abs=1e-7), name


def test_metrics_of_sites_do_not_depend_on_the_size_of_micro_batches(
    model: Path, drill_url: str, tmp_path: Path
) -> None:
    whole, parts = (trained(model, drill_url, tmp_path / str(size), train={"micro": size}) for size in (8, 2))
    for name in ("distillation/loss", "distillation/sites", "distillation/tokens", "distillation/divergence"):
        assert whole[0][name] == pytest.approx(parts[0][name], rel=1e-4), name
    assert whole[0]["distillation/sites"] == whole[0]["distillation/chosen"]
