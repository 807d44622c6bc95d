"""Whether a GPU can hold what a run keeps of its model on each rank, reckoned before weights are loaded."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM

from ...errors import RecipeError
from ..recipe.recipe import Recipe
from .train import world

_LEARNING = 16
"""Bytes a parameter: weights, gradient and Adam's two averages, all in float32."""
_COPY = 4
_VLLM = 0.3
"""Of the card: TRL's vllm_gpu_memory_utilization."""


def bytes_a_parameter(recipe: Recipe, processes: int = 1) -> int:
    """What is held besides activations: the student; a teacher that is not the student; the first weights, for k1, for
    the KL to the base and for a teacher's drift; the buckets of several processes; the copies that autocast makes."""
    teaches = recipe.channels.distillation.used
    teacher = recipe.distillation.teacher if teaches else "none"
    copies = (teacher not in ("none", "live")) + (recipe.objective.kl == "k1_in_reward" and teacher != "frozen")
    copies += bool(recipe.safety.kl_to_base or (teacher not in ("none", "frozen") and recipe.safety.teacher_drift))
    copies += (recipe.objective.kl == "k3") + (processes > 1)
    return _LEARNING + _COPY * copies + 2 * (recipe.model.dtype == "bfloat16")


def check_memory(recipe: Recipe, config: Any) -> None:
    """Raises RecipeError where that alone is more than the GPU has; without a GPU it checks nothing."""
    if not torch.cuda.is_available():
        return
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    parameters, a_parameter = sum(each.numel() for each in model.parameters()), bytes_a_parameter(recipe, world())
    free, whole = torch.cuda.mem_get_info()
    room = free - _VLLM * whole * (recipe.generation.vllm == "colocate")
    if parameters * a_parameter > room:
        raise RecipeError(
            f"model.name: {parameters / 1e9:.2f}e9 parameters take {parameters * a_parameter / 2**30:.0f} GiB "
            f"({a_parameter} bytes each, without activations), and the GPU has {max(room, 0) / 2**30:.0f} for them: "
            "train a smaller model, or let another GPU run vLLM"
        )
