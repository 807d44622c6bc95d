"""Memory estimate: a model that does not fit the GPU is refused before its weights are read."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.model_factory import model
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3MoeConfig

from etude.errors import RecipeError
from etude.trainers.adapters import add_adapters
from etude.trainers.recipe.load import parse
from etude.trainers.recipe.recipe import Recipe
from etude.trainers.recipe.scale import Lora
from etude.trainers.run.memory_check import Sizes, bytes_of_a_process, check_memory, sizes_of

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
        ({"channels": {"distillation": 1.0}, "train": {"gradients_every": 0}}, 1, 24),
        ({"channels": {"rlvr": 0.0, "distillation": 1.0}}, 1, 20),
        ({"channels": {"distillation": 1.0}, "objective": {"kl": "k1_in_reward", "kl_weight": 0.1}}, 1, 32),
        ({"channels": {"distillation": 1.0}, "distillation": {"teacher": "live"}}, 1, 32),
        ({"channels": {"distillation": 1.0}, "distillation": {"teacher": "ema"}, "safety": {"kl_to_base": 1.0}}, 1, 36),
        ({"objective": {"kl": "k3", "kl_weight": 0.1}, "model": {"name": "m", "dtype": "bfloat16"}}, 8, 26),
        # The first weights are one copy for k1, the KL to the base and the drift of a teacher of its own.
        (
            {
                "channels": {"rlvr": 1.0, "distillation": 1.0},
                "distillation": {"teacher": "ema"},
                "objective": {"kl": "k1_in_reward", "kl_weight": 0.1},
                "safety": {"kl_to_base": 1.0},
            },
            1,
            36,
        ),
        ({"channels": {"rlvr": 0.0, "distillation": 1.0}, "distillation": {"teacher": "trust_region"}}, 1, 28),
    ],
)
def test_bytes_of_a_parameter_count_every_copy(tables: dict[str, Any], processes: int, expected: int) -> None:
    assert bytes_of_a_process(recipe(**tables), Sizes(1), processes) == expected


ADAPTERS = {"lora": {"rank": 8}, "channels": {"rlvr": 1.0, "distillation": 1.0}}
VLLM = {"generation": {"vllm": "colocate"}}
HALF = {"model": {"name": "m", "dtype": "bfloat16"}}


@pytest.mark.parametrize(
    ("tables", "processes", "expected"),
    [
        # Frozen weights of 4 bytes, adapters of 16, one more gradient of adapters with two channels, two for norms.
        (ADAPTERS, 1, 4 * 800 + 28 * 8),
        ({**ADAPTERS, "train": {"gradients_every": 0}}, 1, 4 * 800 + 20 * 8),
        ({"lora": {"rank": 8}}, 1, 4 * 800 + 16 * 8),
        ({"lora": {"rank": 8}, **HALF}, 1, 2 * 800 + 18 * 8),
        ({"lora": {"rank": 8}}, 2, 4 * 800 + 20 * 8),
        ({**ADAPTERS, "objective": {"kl": "k3", "kl_weight": 0.1}, "safety": {"kl_to_base": 1.0}}, 1, 3200 + 28 * 8),
        ({**ADAPTERS, "sharding": {"shards": 4}}, 4, 4 * 800 / 4 + 16 * 8 + 4 * 800),
        # Weights, gradients, states and the frozen copy are divided; a layer and the head are gathered, or all weights
        # where transformers samples.
        ({"sharding": {"shards": 4}, "channels": {"distillation": 1.0}, **VLLM}, 8, 20 * 800 / 4 + 4 * 150),
        ({"sharding": {"shards": 8}, **HALF, **VLLM}, 8, 16 * 800 / 8 + 2 * 150),
        ({"sharding": {"shards": 8}, **HALF}, 8, 16 * 800 / 8 + 2 * 800),
    ],
)
def test_adapters_and_shards_take_less(tables: dict[str, Any], processes: int, expected: float) -> None:
    sizes = Sizes(base=800, adapters=8, layer=100, head=50)
    assert bytes_of_a_process(recipe(**tables), sizes, processes) == expected


@pytest.mark.parametrize("targets", [(), ("q_proj", "down_proj")])
@pytest.mark.parametrize("name", ["qwen3", "qwen3-tied", "qwen3-moe"])
def test_sizes_are_those_of_the_model_that_is_trained(name: str, targets: tuple[str, ...]) -> None:
    lora = Lora(rank=4, targets=targets)
    policy = model(name)
    with torch.device("meta"):
        sizes = sizes_of(AutoModelForCausalLM.from_config(policy.config), lora)
    assert sizes.layer == sum(parameter.numel() for parameter in policy.model.layers[0].parameters())
    assert sizes.base == sum(parameter.numel() for parameter in policy.parameters())
    adapted = add_adapters(policy, lora)
    assert sizes.adapters == sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad)


def test_adapters_of_a_dense_model_have_rank_times_in_plus_out_for_each_linear_layer_without_the_head() -> None:
    policy = model("qwen3")
    head = policy.get_output_embeddings()
    linear = [m for m in policy.modules() if isinstance(m, torch.nn.Linear) and m is not head]
    expected = sum(4 * (module.in_features + module.out_features) for module in linear)
    assert sizes_of(policy, Lora(rank=4)).adapters == expected


def test_check_memory_accepts_a_large_model_with_adapters_and_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Qwen3MoeConfig(
        hidden_size=2048, num_hidden_layers=48, num_attention_heads=32, num_key_value_heads=4, head_dim=128
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (79 * 2**30, 80 * 2**30))
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(RecipeError, match=r"30.53e9 parameters take 569 GiB \(20.0 bytes each.*set lora.rank or shard"):
        check_memory(recipe(), large)
    with pytest.raises(RecipeError, match=r"take 114 GiB \(4.0 bytes each"):
        check_memory(recipe(sharding={"shards": 8}, **HALF), large)
    check_memory(recipe(sharding={"shards": 8}, lora={"rank": 16, "targets": ["q_proj", "o_proj"]}, **HALF), large)


@pytest.mark.parametrize(
    ("vllm", "spare", "fits"), [("off", 1.01, True), ("off", 0.99, False), ("colocate", 1.4, False)]
)
def test_check_memory_refuses_a_model_that_does_not_fit_in_one_line(
    vllm: str, spare: float, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
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
