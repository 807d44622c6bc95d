"""Memory estimate: a model that does not fit the GPU is refused before its weights are read."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import Qwen3Config

from etude.errors import RecipeError
from etude.trainers.recipe.load import parse
from etude.trainers.recipe.recipe import Recipe
from etude.trainers.run.memory_check import bytes_per_parameter, check_memory

CONFIG = Qwen3Config(
    vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16
)


def recipe(**tables: Any) -> Recipe:
    return parse({"model": {"name": "m"}, "environment": {"url": "http://h"}, **tables})


@pytest.mark.parametrize(
    ("tables", "processes", "expected"),
    [
        ({}, 1, 16),
        ({"channels": {"distillation": 1.0}}, 1, 32),
        ({"channels": {"distillation": 1.0}, "train": {"gradients_every": 0}}, 1, 20),
        ({"channels": {"rlvr": 0.0, "distillation": 1.0}}, 1, 20),
        ({"channels": {"distillation": 1.0}, "objective": {"kl": "k1_in_reward", "kl_weight": 0.1}}, 1, 32),
        ({"channels": {"distillation": 1.0}, "distillation": {"teacher": "live"}}, 1, 32),
        ({"channels": {"distillation": 1.0}, "distillation": {"teacher": "ema"}, "safety": {"kl_to_base": 1.0}}, 1, 36),
        ({"objective": {"kl": "k3", "kl_weight": 0.1}, "model": {"name": "m", "dtype": "bfloat16"}}, 8, 26),
    ],
)
def test_bytes_per_parameter_count_every_copy(tables: dict[str, Any], processes: int, expected: int) -> None:
    assert bytes_per_parameter(recipe(**tables), processes) == expected


@pytest.mark.parametrize(
    ("vllm", "spare", "fits"), [("off", 1.01, True), ("off", 0.99, False), ("colocate", 1.4, False)]
)
def test_check_memory_refuses_a_model_that_does_not_fit_in_one_line(
    vllm: str, spare: float, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    needed = 16 * sum(parameter.numel() for parameter in AutoModelForCausalLM.from_config(CONFIG).parameters())
    room = int(needed * spare)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (room, room))
    checked = recipe(generation={"vllm": vllm})
    if fits:
        check_memory(checked, CONFIG)
        return
    with pytest.raises(RecipeError, match=r"^model.name: 0.01e9 parameters take .* train a smaller model") as caught:
        check_memory(checked, CONFIG)
    assert "\n" not in str(caught.value)
