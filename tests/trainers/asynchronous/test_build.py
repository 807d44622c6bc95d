"""Recipes of asynchronous runs: what is refused before weights load, and the arguments of TRL's trainer."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from transformers import Gemma2Config, Qwen3Config, Qwen3NextConfig
from trl.experimental.async_grpo import AsyncGRPOConfig

from etude.errors import RecipeError, UnsuitableModel
from etude.trainers.asynchronous.attention import check_attention
from etude.trainers.asynchronous.build import async_arguments
from etude.trainers.recipe.load import parse
from etude.trainers.recipe.recipe import Recipe
from etude.trainers.run import preflight

ADDRESS = "http://127.0.0.1:8001"


def recipe(**tables: Any) -> Recipe:
    table: dict[str, Any] = {
        "model": {"name": "some/model"},
        "environment": {"serve": "drill"},
        "objective": {"name": "bnpo"},
        "generation": {"vllm": "server", "vllm_url": ADDRESS},
        "asynchronous": {"episodes": 16},
    }
    return parse({**table, **tables})


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"generation": {}}, r'sampled by a vLLM server while .*; set generation.vllm = "server", and generation.vllm'),
        ({"generation": {"vllm": "colocate"}}, 'sampled by a vLLM server while .*; set generation.vllm = "server"'),
        ({"generation": {"vllm": "server"}}, 'generation.vllm = "server" needs generation.vllm_url'),
        (
            {"generation": {"vllm": "server", "vllm_url": ADDRESS, "lockstep": True}},
            "generation.lockstep is not read with asynchronous.episodes; remove it",
        ),
        ({"sharding": {"shards": 2}}, "sharding.shards is not supported with asynchronous.episodes.*; remove it"),
        ({"lora": {"rank": 8}}, "lora.rank is not supported with asynchronous.episodes.*; remove it"),
        ({"objective": {}}, 'objective.name = "dr_grpo" is not read .* is that of "bnpo"; set it'),
        (
            {"objective": {"name": "bnpo", "kl": "k3", "kl_weight": 0.1}},
            'objective.kl = "k3" is not supported with asynchronous.episodes; remove it, with kl_weight',
        ),
        ({"effort": {"weight": 0.1}}, "effort.weight is not supported with asynchronous.episodes.*; remove it"),
        ({"train": {"epochs_on_a_batch": 2}}, "train.epochs_on_a_batch must be 1 with asynchronous.episodes"),
        ({"asynchronous": {"max_staleness": 2}}, r"\[asynchronous\] is read with asynchronous.episodes only"),
        ({"asynchronous": {"episodes": -1}}, "asynchronous.episodes"),
        ({"asynchronous": {"episode": 8}}, "Did you mean 'episodes'"),
    ],
)
def test_recipe_is_refused_in_one_line(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        recipe(**tables)
    assert "\n" not in str(caught.value)


def test_stage_sft_does_not_read_the_table() -> None:
    with pytest.raises(RecipeError, match=r'stage = "sft" does not read \[asynchronous\]; remove them') as caught:
        parse(
            {
                "stage": "sft",
                "episodes": "runs/x",
                "model": {"name": "some/model"},
                "asynchronous": {"episodes": 16},
            }
        )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("processes", "gpu", "message"),
    [
        ("2", True, '"server" works with one process only'),
        ("1", False, "asynchronous.episodes needs a GPU, and torch finds none"),
        ("1", True, "no vLLM server answers at http://127.0.0.1:9"),
    ],
)
def test_machine_is_refused_in_one_line(
    processes: str, gpu: bool, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", processes)
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(preflight, "_has_gpu", lambda: gpu)
    with pytest.raises(RecipeError, match=message) as caught:
        preflight.check_machine(recipe(generation={"vllm": "server", "vllm_url": "http://127.0.0.1:9"}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Gemma2Config(), "gemma2 caps the logits of its attention; train it synchronously"),
        (Qwen3NextConfig(), "reads no layers of the type linear_attention; train synchronously"),
        (Qwen3Config(), ""),
    ],
)
def test_attention_that_cannot_be_read_is_refused(config: Any, message: str) -> None:
    if not message:
        check_attention(config)
        return
    with pytest.raises(UnsuitableModel, match=message) as caught:
        check_attention(config)
    assert "\n" not in str(caught.value)


def test_arguments_are_those_of_trls_configuration(tmp_path: Path) -> None:
    made = recipe(
        asynchronous={"episodes": 48, "max_staleness": 2, "sync_every": 3, "queue": 99},
        train={"prompts": 3, "group": 8, "micro": 6, "steps": 7},
    )
    arguments = async_arguments(made, tmp_path)
    assert set(arguments) <= {field.name for field in fields(AsyncGRPOConfig)}
    config = AsyncGRPOConfig(**{**arguments, "use_cpu": True})
    assert (config.max_inflight_tasks, config.max_staleness, config.queue_maxsize) == (48, 2, 99)
    assert (config.weight_sync_steps, config.vllm_server_base_url, config.max_steps) == (3, ADDRESS, 7)
    assert (config.per_device_train_batch_size, config.gradient_accumulation_steps) == (6, 4)
    assert (config.num_generations, config.token_budget, config.dtype) == (8, 0, "float32")
