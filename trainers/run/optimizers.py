"""Optimizer of a run, when the recipe asks for one that transformers does not make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.optim.optimizer import Optimizer

from ...errors import RecipeError
from ..distributed import rank
from ..muon import Muon, describe, divide
from ..recipe.recipe import Recipe

DIVISIONS = "muon.txt"
"""File in the folder of the run: what Muon does with each parameter."""


def optimizer_arguments(recipe: Recipe, model: Any) -> dict[str, Any]:
    """Return the arguments by which a trainer gets its optimizer; none for AdamW, which the trainer makes itself.

    The division of the model is written to ``DIVISIONS``. Raise RecipeError when the model has no matrix to train.
    """
    if recipe.optimizer.name == "adamw":
        return {}
    return {"optimizers": (_muon(recipe, model), None)}


def _muon(recipe: Recipe, model: Any) -> Optimizer:
    options, train = recipe.optimizer, recipe.train
    try:
        divisions = divide(model)
    except ValueError as error:
        raise RecipeError(f"optimizer.name: {error}") from error
    if all(division.blocks is None for division in divisions):
        raise RecipeError('optimizer.name: the model has no matrix for Muon to train; set it to "adamw"')
    if rank() == 0:
        path = Path(recipe.out, DIVISIONS)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(describe(divisions) + "\n", "utf-8")
    return Muon(
        divisions,
        train.learning_rate,
        weight_decay=train.weight_decay,
        momentum=options.momentum,
        nesterov=options.nesterov,
        scale=options.scale,
        coefficients=options.coefficients,
        method=options.method,
        cautious=options.cautious,
        neuron_beta=options.neuron_beta or None,
        adamw_lr=options.adamw_learning_rate or None,
        betas=options.betas,
    )
