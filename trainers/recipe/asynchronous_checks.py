"""Rules of a recipe about asynchronous training."""

from __future__ import annotations

from collections.abc import Iterator

from .asynchronous import Asynchronous
from .recipe import Recipe


def asynchronous_problems(recipe: Recipe) -> Iterator[str]:
    """Yield one line for each rule about asynchronous training that the recipe breaks."""
    table, generation, objective = recipe.asynchronous, recipe.generation, recipe.objective
    if not table.episodes:
        if table != Asynchronous():
            yield "[asynchronous] is read with asynchronous.episodes only; give it a number, or remove the table"
        return
    if generation.vllm != "server":
        yield (
            "asynchronous.episodes are sampled by a vLLM server while the policy learns; set "
            'generation.vllm = "server", and generation.vllm_url'
        )
    if generation.lockstep:
        yield "generation.lockstep is not read with asynchronous.episodes; remove it"
    for name, value in (("sharding.shards", recipe.sharding.shards), ("lora.rank", recipe.lora.rank)):
        if value:
            yield f"{name} is not supported with asynchronous.episodes: one process trains whole weights; remove it"
    if objective.name != "bnpo" and recipe.channels.rlvr.used:
        yield (
            f'objective.name = "{objective.name}" is not read with asynchronous.episodes: TRL\'s asynchronous loss is '
            'that of "bnpo"; set it'
        )
    if objective.kl != "off":
        yield f'objective.kl = "{objective.kl}" is not supported with asynchronous.episodes; remove it, with kl_weight'
    if recipe.effort.weight:
        yield "effort.weight is not supported with asynchronous.episodes, whose rewards TRL computes; remove it"
    if recipe.train.epochs_on_a_batch != 1:
        yield "train.epochs_on_a_batch must be 1 with asynchronous.episodes: each episode is learned from once; set it"
