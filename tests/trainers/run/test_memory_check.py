"""A model that no GPU of this kind holds is refused before its weights are read."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import Qwen3Config

from etude.errors import RecipeError
from etude.trainers.recipe.load import parse
from etude.trainers.recipe.recipe import Recipe
from etude.trainers.run.memory_check import bytes_a_parameter, check_memory

CONFIG = Qwen3Config(
    vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16
)


def recipe(**tables: Any) -> Recipe:
    return parse({"model": {"name": "m"}, "environment": {"url": "http://h"}, **tables})


@pytest.mark.parametrize(
    ("tables", "processes", "each"),
    [
        ({}, 1, 16),
        ({"channels": {"distillation": 1.0}}, 1, 20),
        ({"channels": {"distillation": 1.0}, "objective": {"kl": "k1_in_reward", "kl_weight": 0.1}}, 1, 20),
        ({"channels": {"distillation": 1.0}, "distillation": {"teacher": "live"}}, 1, 20),
        ({"channels": {"distillation": 1.0}, "distillation": {"teacher": "ema"}, "safety": {"kl_to_base": 1.0}}, 1, 24),
        ({"objective": {"kl": "k3", "kl_weight": 0.1}, "model": {"name": "m", "dtype": "bfloat16"}}, 8, 26),
    ],
)
def test_what_is_held_of_a_parameter(tables: dict[str, Any], processes: int, each: int) -> None:
    assert bytes_a_parameter(recipe(**tables), processes) == each


@pytest.mark.parametrize(
    ("vllm", "spare", "fits"), [("off", 1.01, True), ("off", 0.99, False), ("colocate", 1.4, False)]
)
def test_what_does_not_fit_is_one_line(vllm: str, spare: float, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModelForCausalLM

    needed = 16 * sum(each.numel() for each in AutoModelForCausalLM.from_config(CONFIG).parameters())
    room = int(needed * spare)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (room, room))
    asked = recipe(generation={"vllm": vllm})
    if fits:
        check_memory(asked, CONFIG)
        return
    with pytest.raises(RecipeError, match=r"^model.name: 0.01e9 parameters take .* train a smaller model") as said:
        check_memory(asked, CONFIG)
    assert "\n" not in str(said.value)
