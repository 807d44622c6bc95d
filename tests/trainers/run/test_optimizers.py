"""Optimizer of a recipe: Muon for stage "rl" and "sft", what it writes, models without matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.small_transformer import SmallTransformer
from torch import nn

from etude.errors import RecipeError
from etude.trainers.muon import Muon
from etude.trainers.recipe.load import parse
from etude.trainers.recipe.recipe import Recipe
from etude.trainers.run.optimizers import DIVISIONS, optimizer_arguments


def _recipe(out: Path, **tables: Any) -> Recipe:
    return parse({"out": str(out), "model": {"make": "tiny"}, "environment": {"url": "http://127.0.0.1:1"}, **tables})


def test_adamw_is_left_to_the_trainer(tmp_path: Path) -> None:
    assert optimizer_arguments(_recipe(tmp_path), SmallTransformer()) == {}
    assert not (tmp_path / DIVISIONS).exists()


def test_muon_gets_the_options_and_writes_its_division(tmp_path: Path) -> None:
    recipe = _recipe(
        tmp_path,
        train={"learning_rate": 2e-4, "weight_decay": 0.3},
        optimizer={"name": "muon", "momentum": 0.9, "adamw_learning_rate": 1e-5, "method": "gram"},
    )
    optimizer, schedule = optimizer_arguments(recipe, SmallTransformer())["optimizers"]
    assert isinstance(optimizer, Muon) and schedule is None
    matrices, others = optimizer.param_groups
    assert (matrices["lr"], matrices["momentum"], others["lr"]) == (2e-4, 0.9, 1e-5)
    assert matrices["weight_decay"] == others["weight_decay"] == 0.3
    assert "Muon by head: 3 of 6 x 20" in (tmp_path / DIVISIONS).read_text()


def test_model_without_matrices_is_refused_in_one_line(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, optimizer={"name": "muon"})
    with pytest.raises(
        RecipeError, match='optimizer.name: the model has no matrix for Muon to train; set it to "adamw"'
    ):
        optimizer_arguments(recipe, nn.Embedding(4, 4))
    with pytest.raises(RecipeError, match="optimizer.name: no parameter needs a gradient; unfreeze the model"):
        optimizer_arguments(recipe, nn.Linear(4, 4).requires_grad_(False))


@pytest.mark.parametrize(
    "options",
    [
        {"name": "sgd"},
        {"name": "muon", "momentum": 1.0},
        {"name": "muon", "scale": "large"},
        {"name": "muon", "betas": [1.5, 0.9]},
        {"neuron_beta": 0.9},
    ],
)
def test_unknown_options_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"optimizer\."):
        _recipe(tmp_path, optimizer=options)
