"""Tables of a recipe for models that one process cannot train whole: low-rank adapters and sharded weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from .typed_toml import Table

if TYPE_CHECKING:
    from .recipe import Recipe


class Lora(Table):
    """Low-rank adapters (LoRA, arXiv:2106.09685): W + alpha / rank * B A, where only A and B are trained."""

    rank: int = Field(default=0, ge=0)
    """Rank of the adapters; 0 trains all weights."""
    alpha: float = Field(default=32.0, gt=0)
    """Scale of the adapters, divided by their rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of an adapter's inputs that is dropped in training."""
    targets: tuple[str, ...] = ()
    """Names of the modules that get an adapter, such as "q_proj"; empty for every linear layer except the head."""


class Sharding(Table):
    """Division of weights, gradients and optimizer states over processes (FSDP2)."""

    shards: int = Field(default=0, ge=0)
    """Processes that share one copy of the weights. With fewer than all processes, there are several copies (HSDP).
    With 0 every process has a whole copy (DDP)."""


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
    if recipe.channels.distillation.used and (lora.rank or shards) and recipe.distillation.teacher in kinds:
        reason = "lora.rank" if lora.rank else "sharding.shards"
        yield (
            f'distillation.teacher = "{recipe.distillation.teacher}" averages or copies whole weights, which a run '
            f'with {reason} does not have; set it to "frozen" or "live"'
        )
    if shards and not lora.rank and recipe.objective.kl == "k3":
        yield (
            'objective.kl = "k3" loads a whole reference on every process; with sharding.shards set it to '
            '"k1_in_reward", or use lora.rank'
        )
