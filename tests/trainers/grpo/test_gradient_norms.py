"""Gradient norms: their values, when they are measured, and that measuring them changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.made_up_rollouts import drilled
from helpers.scripted_policy import Scripted

from etude.trainers.distillation.distiller import Settings
from etude.trainers.distillation.teachers import Teacher
from etude.trainers.grpo.gradient_norms import GradientNorms
from etude.trainers.grpo.parts import ChannelWeights
from etude.trainers.grpo.trainer import EtudeTrainer


def measured(terms: dict[str, torch.Tensor], model: Any) -> dict[str, float]:
    norms = GradientNorms()
    norms.add(terms, model)
    return norms.norms()


def test_gradient_norms_are_those_of_each_term() -> None:
    model = torch.nn.Linear(2, 1, bias=False)
    terms = {"rlvr": 3 * model.weight[0, 0], "replay": 2 * model.weight.sum(), "distillation": torch.zeros(())}
    assert measured(terms, model) == pytest.approx({"gradient/rlvr": 3.0, "gradient/replay": 8**0.5})
    torch.stack(list(terms.values())).sum().backward()
    assert model.weight.grad is not None and model.weight.grad.tolist() == [[5.0, 2.0]]


def test_gradient_norms_leave_out_frozen_parameters() -> None:
    model = torch.nn.Linear(1, 1)
    model.bias.requires_grad_(False)
    assert measured({"rlvr": (model.weight + model.bias).sum()}, model) == {"gradient/rlvr": 1.0}


def test_gradients_of_micro_batches_are_summed_before_their_norm() -> None:
    model, norms = torch.nn.Linear(2, 1, bias=False), GradientNorms()
    for factor in (5.0, -1.0):
        norms.add({"rlvr": factor * model.weight[0, 0], "replay": 4 * model.weight[0, int(factor < 0)]}, model)
    assert norms.norms() == pytest.approx({"gradient/rlvr": 4.0, "gradient/replay": 32**0.5})
    norms.add({"rlvr": model.weight.sum()}, model)
    assert norms.norms() == pytest.approx({"gradient/rlvr": 2**0.5}), "a step does not see the one before"


def trained(url: str, out: Path, every: int, rlvr: float = 1.0, **config: Any) -> EtudeTrainer:
    """Train for three steps, of two micro-batches each by default."""
    parts = {
        "channels": ChannelWeights(rlvr=lambda share: rlvr, distillation=lambda share: 0.5),
        "distillation": Settings(gate=False),
        "teacher": Teacher("frozen"),
        "gradients_every": every,
    }
    trainer: EtudeTrainer = drilled(Scripted, url, out, parts, **{"max_steps": 3, "learning_rate": 1e-2, **config})
    trainer.train()
    trainer.close()
    return trainer


def logged_norms(trainer: EtudeTrainer) -> list[dict[str, Any]]:
    rows = [row for row in trainer.state.log_history if "loss" in row]
    return [{name: row[name] for name in row if name.startswith("gradient/")} for row in rows]


def test_run_is_bit_equal_when_gradients_are_measured(drill_url: str, tmp_path: Path) -> None:
    """The losses of both channels use autograd functions of their own, whose gradients are computed twice here."""
    without, with_them = (trained(drill_url, tmp_path / str(every), every) for every in (0, 1))
    assert not any(logged_norms(without)) and all(row.keys() == NAMES for row in logged_norms(with_them))
    for one, other in zip(without.model.parameters(), with_them.model.parameters(), strict=True):
        assert torch.equal(one, other)


NAMES = {"gradient/rlvr", "gradient/distillation"}


def test_gradients_are_measured_every_second_step_when_asked_for(drill_url: str, tmp_path: Path) -> None:
    rows = logged_norms(trained(drill_url, tmp_path, 2))
    assert [set(row) for row in rows] == [NAMES, set(), NAMES]


def test_gradients_are_not_measured_when_one_channel_is_used(drill_url: str, tmp_path: Path) -> None:
    """The gradient of the channel is then that of the whole loss."""
    assert not any(logged_norms(trained(drill_url, tmp_path, 1, rlvr=0.0)))


def test_norms_do_not_depend_on_the_size_of_micro_batches(drill_url: str, tmp_path: Path) -> None:
    whole = trained(drill_url, tmp_path / "whole", 1, max_steps=1)
    rows = whole.args.per_device_train_batch_size * whole.args.gradient_accumulation_steps
    sizes = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": rows}
    one_by_one = trained(drill_url, tmp_path / "parts", 1, max_steps=1, **sizes)
    (expected,), (actual,) = logged_norms(whole), logged_norms(one_by_one)
    assert actual == pytest.approx(expected, rel=1e-4)
