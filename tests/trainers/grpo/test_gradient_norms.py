"""The norm of each channel's own gradient: what it is, when it is measured, and that measuring changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.made_up_rollouts import drilled
from helpers.scripted_policy import Scripted

from etude.trainers.distillation.distiller import Settings
from etude.trainers.distillation.teachers import Teacher
from etude.trainers.grpo.gradient_norms import gradient_norms
from etude.trainers.grpo.trainer import Channels, EtudeTrainer


def test_norms_are_those_of_each_terms_gradient() -> None:
    model = torch.nn.Linear(2, 1, bias=False)
    terms = {"rlvr": 3 * model.weight[0, 0], "replay": 2 * model.weight.sum(), "distillation": torch.zeros(())}
    assert gradient_norms(terms, model) == pytest.approx({"gradient/rlvr": 3.0, "gradient/replay": 8**0.5})
    torch.stack(list(terms.values())).sum().backward()
    assert model.weight.grad is not None and model.weight.grad.tolist() == [[5.0, 2.0]]


def test_frozen_parameters_do_not_count() -> None:
    model = torch.nn.Linear(1, 1)
    model.bias.requires_grad_(False)
    assert gradient_norms({"rlvr": (model.weight + model.bias).sum()}, model) == {"gradient/rlvr": 1.0}


def trained(url: str, out: Path, every: int, rlvr: float = 1.0) -> EtudeTrainer:
    """Three steps of two micro-batches."""
    parts = {
        "channels": Channels(rlvr=lambda done: rlvr, distillation=lambda done: 0.5),
        "distillation": Settings(gate=False),
        "teacher": Teacher("frozen"),
        "gradients_every": every,
    }
    found: EtudeTrainer = drilled(Scripted, url, out, parts, max_steps=3, learning_rate=1e-2)
    found.train()
    found.close()
    return found


def measured(trainer: EtudeTrainer) -> list[dict[str, Any]]:
    rows = [row for row in trainer.state.log_history if "loss" in row]
    return [{name: row[name] for name in row if name.startswith("gradient/")} for row in rows]


def test_a_run_is_the_same_bit_for_bit_where_gradients_are_measured(drill_url: str, tmp_path: Path) -> None:
    """TRL's head and ours are functions of their own; their gradients can be asked for twice."""
    without, with_them = (trained(drill_url, tmp_path / str(every), every) for every in (0, 1))
    assert not any(measured(without)) and all(row.keys() == NAMES for row in measured(with_them))
    for one, other in zip(without.model.parameters(), with_them.model.parameters(), strict=True):
        assert torch.equal(one, other)


NAMES = {"gradient/rlvr", "gradient/distillation"}


def test_gradients_are_measured_once_in_so_many_steps(drill_url: str, tmp_path: Path) -> None:
    rows = measured(trained(drill_url, tmp_path, 2))
    assert [set(row) for row in rows] == [NAMES, set(), NAMES]


def test_a_channel_alone_is_not_measured(drill_url: str, tmp_path: Path) -> None:
    """Its gradient is the run's."""
    assert not any(measured(trained(drill_url, tmp_path, 1, rlvr=0.0)))
