"""Mesh of a run whose weights are divided over processes, and the checks that need no weights."""

from __future__ import annotations

from typing import Any

from ...errors import RecipeError
from ..recipe.recipe import Recipe


def check_layout(recipe: Recipe, processes: int) -> None:
    """Raise RecipeError if the processes of the run cannot be divided as ``sharding.shards`` says."""
    shards = recipe.sharding.shards
    if shards and (processes < 2 or processes % shards):
        raise RecipeError(
            f"sharding.shards = {shards} does not divide the {processes} processes of this run; start a multiple of "
            f"{shards} with `torchrun --nproc-per-node {max(shards, 2)} -m etude.cli train RECIPE.toml`, or set "
            "sharding.shards = 0"
        )


def distributed_config(recipe: Recipe, processes: int) -> Any:
    """Return transformers' DistributedConfig, or None for a run that shards nothing.

    In bfloat16, weights travel and are computed with in bfloat16, while shards and gradient sums stay float32. Raise
    RecipeError for a transformers that cannot shard.
    """
    if not recipe.sharding.shards:
        return None
    options: dict[str, Any] = {
        "fsdp_size": recipe.sharding.shards,
        "dp_replicate_size": processes // recipe.sharding.shards,
        "fsdp_mixed_precision": recipe.model.dtype == "bfloat16",
    }
    try:
        from transformers.distributed.configuration_utils import DistributedConfig

        return DistributedConfig(**options)
    except (ImportError, TypeError):
        raise RecipeError("sharding.shards needs a newer transformers; pip install 'transformers>=5.23'") from None
