"""Estimate of a run's GPU memory, before weights are loaded: what each rank stores for every parameter of its model."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM

from ...errors import RecipeError
from ..distributed import world_size
from ..recipe.recipe import Recipe

_LEARNING = 16
"""Bytes of a parameter that learns: weight, gradient and Adam's two averages, in float32."""
_COPY = 4
"""Bytes of a parameter in one more copy."""
_VLLM_SHARE = 0.3
"""Share of the GPU that vLLM inside this process takes (TRL's vllm_gpu_memory_utilization)."""


def bytes_per_parameter(recipe: Recipe, processes: int = 1) -> int:
    """Return the bytes that each parameter takes, without activations.

    Besides the policy these are: a teacher with weights of its own; the first weights, for k1, for the KL to the base
    and for a teacher's drift; the reference of k3; the gradient buckets of several processes; autocast's copies; and,
    where gradient norms of several channels are measured, a gradient for each channel and the one in work.
    """
    teacher = recipe.distillation.teacher if recipe.channels.distillation.used else "none"
    copies = (teacher not in ("none", "live")) + (recipe.objective.kl == "k1_in_reward" and teacher != "frozen")
    copies += bool(recipe.safety.kl_to_base or (teacher not in ("none", "frozen") and recipe.safety.teacher_drift))
    copies += (recipe.objective.kl == "k3") + (processes > 1)
    channels = sum(
        channel.used for channel in (recipe.channels.rlvr, recipe.channels.distillation, recipe.channels.replay)
    )
    copies += (channels + 1) * (channels > 1 and recipe.train.gradients_every > 0)
    return _LEARNING + _COPY * copies + 2 * (recipe.model.dtype == "bfloat16")


def check_memory(recipe: Recipe, config: Any) -> None:
    """Raise RecipeError if the parameters of a model with this config take more than the GPU has free.

    Without a GPU, nothing is checked.
    """
    if not torch.cuda.is_available():
        return
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    per_parameter = bytes_per_parameter(recipe, world_size())
    free, size = torch.cuda.mem_get_info()
    room = free - _VLLM_SHARE * size * (recipe.generation.vllm == "colocate")
    if parameters * per_parameter > room:
        raise RecipeError(
            f"model.name: {parameters / 1e9:.2f}e9 parameters take {parameters * per_parameter / 2**30:.0f} GiB "
            f"({per_parameter} bytes each, without activations), but the GPU has {max(room, 0) / 2**30:.0f} GiB for "
            "them; train a smaller model, or run vLLM on another GPU"
        )
