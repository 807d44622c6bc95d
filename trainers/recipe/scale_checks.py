"""Rules of a recipe about adapters and sharded weights."""

from __future__ import annotations

from collections.abc import Iterator

from .recipe import Recipe
from .scale import Lora


def scale_problems(recipe: Recipe) -> Iterator[str]:
    """Yield one line for each rule about adapters and sharding that the recipe breaks."""
    lora, shards = recipe.lora, recipe.sharding.shards
    if not lora.rank and lora != Lora():
        yield "[lora] is read with lora.rank only; set a rank, or remove the table"
    if lora.rank and recipe.optimizer.name == "muon":
        yield (
            'optimizer.name = "muon" updates whole matrices, which are frozen while lora.rank > 0; '
            'set optimizer.name = "adamw", or lora.rank = 0'
        )
    head = next((name for name in lora.targets if name.split(".")[-1] in ("lm_head", "embed_tokens")), "")
    if head:
        yield f"lora.targets: an adapter on {head} is not supported, because log-probabilities are read from the head"
    if recipe.stage == "rl":
        yield from _teacher_problems(recipe)
    if shards and recipe.model.make:
        yield "sharding.shards needs a model that exists; train the tiny one first, and give its folder as model.name"


def _teacher_problems(recipe: Recipe) -> Iterator[str]:
    lora, shards = recipe.lora, recipe.sharding.shards
    kinds = {"ema", "trust_region"} | ({"periodic"} if shards else set())
    if recipe.channels.distillation.used and lora.rank and recipe.distillation.teacher in kinds:
        yield (
            f'distillation.teacher = "{recipe.distillation.teacher}" averages or copies whole weights, which a run '
            'with lora.rank does not have; set it to "frozen" or "live"'
        )
    if shards and not lora.rank and recipe.objective.kl == "k3":
        yield (
            'objective.kl = "k3" loads a whole reference on every process; with sharding.shards set it to '
            '"k1_in_reward", or use lora.rank'
        )
