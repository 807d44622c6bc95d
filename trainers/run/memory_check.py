"""Estimate of a run's GPU memory, before weights are loaded: what each process stores for the model that it trains."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM

from ...errors import RecipeError
from ..adapters import add_adapters
from ..distributed import world_size
from ..recipe.recipe import Recipe
from ..recipe.scale import Lora

_LEARNING = 16
"""Bytes of a parameter that learns: weight, gradient and Adam's two averages, in float32."""
_COPY = 4
"""Bytes of a parameter in one more copy."""
_HALF = 2
"""Bytes of a parameter in bfloat16."""
VLLM_SHARE = 0.3
"""Share of the GPU that vLLM inside this process takes (TRL's vllm_gpu_memory_utilization)."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of parameters that decide the memory of a run."""

    base: int
    """Parameters of the model without adapters."""
    adapters: int = 0
    """Parameters of its adapters."""
    layer: int = 0
    """Parameters of its largest layer, experts included."""
    head: int = 0
    """Parameters of its output head."""


def sizes_of(model: Any, lora: Lora) -> Sizes:
    """Return the sizes of a causal language model, which may be on the device "meta"; adapters are added to it.

    They are counted by adding them: rank x (in + out) for a linear layer, while peft adapts stacked experts in other
    shapes. Raise RecipeError for targets that fit no module.
    """
    layers = (layer for module in model.modules() if isinstance(module, nn.ModuleList) for layer in module)
    base, largest, head = _count(model), max(map(_count, layers), default=0), _count(model.get_output_embeddings())
    if not lora.rank:
        return Sizes(base, 0, largest, head)
    with warnings.catch_warnings(action="ignore"):  # peft's, which come again with the weights
        adapted = add_adapters(model, lora)
    adapters = sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad)
    return Sizes(base, adapters, largest, head)


def copies_of_weights(recipe: Recipe) -> int:
    """Return the copies of the whole model that a run stores beside the policy; none with adapters.

    The first weights are one copy that all its readers share: a frozen teacher, k1, the KL to the base, and the first
    measurement of a moving teacher's drift. With adapters, the policy without them is that model.
    """
    if recipe.lora.rank:
        return 0
    teacher = recipe.distillation.teacher if recipe.channels.distillation.used else "none"
    drift = teacher not in ("none", "frozen") and recipe.safety.teacher_drift > 0
    first = teacher == "frozen" or drift or recipe.objective.kl == "k1_in_reward" or recipe.safety.kl_to_base > 0
    teachers = {"periodic": 1, "ema": 1, "trust_region": 2}.get(teacher, 0)
    return teachers + bool(first) + (recipe.objective.kl == "k3")


def samples_itself(recipe: Recipe) -> bool:
    """Return whether episodes are sampled from the trained model with transformers, and not with vLLM."""
    plays = recipe.stage == "rl" or bool(recipe.environment.url or recipe.environment.serve)
    return plays and recipe.generation.vllm == "off"


def bytes_of_a_process(recipe: Recipe, sizes: Sizes, processes: int = 1) -> float:
    """Return the bytes of GPU memory that one process needs, without activations.

    A whole model has the gradient buckets of several processes, and autocast's copies. With several channels, autograd
    holds the gradient of one until it has the other's; where their norms are measured, there is one more for each
    channel. A sharded model has none of these. It gathers its largest layer and its head, or the whole model where
    transformers samples from it. Adapters are whole on every process.
    """
    shards, half = recipe.sharding.shards, recipe.model.dtype == "bfloat16"
    whole = not shards
    channels = sum(
        channel.used for channel in (recipe.channels.rlvr, recipe.channels.distillation, recipe.channels.replay)
    )
    extra = _COPY * (whole and processes > 1) + _HALF * (whole and half)
    extra += _COPY * (1 + channels * (recipe.train.gradients_every > 0)) * (whole and channels > 1)
    parts = sizes.base if samples_itself(recipe) else sizes.layer + sizes.head
    gathered = 0 if whole else parts * (_HALF if half else _COPY)
    if recipe.lora.rank:
        frozen = sizes.base * (_HALF if half else _COPY) / (shards or 1)
        copied = _COPY * (recipe.channels.distillation.used and recipe.distillation.teacher == "periodic")
        return frozen + sizes.adapters * (_LEARNING + extra + copied) + gathered
    return sizes.base * (_LEARNING + _COPY * copies_of_weights(recipe)) / (shards or 1) + sizes.base * extra + gathered


def check_memory(recipe: Recipe, config: Any) -> None:
    """Raise RecipeError if the parameters of a model with this config take more than the GPU has free.

    Without a GPU, nothing is checked.
    """
    if not torch.cuda.is_available():
        return
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    sizes = sizes_of(model, recipe.lora)
    needed = bytes_of_a_process(recipe, sizes, world_size())
    free, size = torch.cuda.mem_get_info()
    room = free - VLLM_SHARE * size * (recipe.generation.vllm == "colocate")
    if needed > room:
        raise RecipeError(
            f"model.name: {sizes.base / 1e9:.2f}e9 parameters take {needed / 2**30:.0f} GiB "
            f"({needed / sizes.base:.1f} bytes each, without activations), but the GPU has {max(room, 0) / 2**30:.0f} "
            "GiB for them; train a smaller model, set lora.rank or sharding.shards, or run vLLM on another GPU"
        )


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
