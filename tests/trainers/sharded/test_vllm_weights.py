"""Weights that TRL sends to vLLM: those of the whole model, also when ranks or adapters hold parts of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from helpers.ranks import run_on_ranks
from helpers.sharded_models import launched, load, saved
from torch import Tensor, distributed
from trl.generation.vllm_generation import DistributedBackend, VLLMGeneration

from etude.trainers.adapters import add_adapters
from etude.trainers.grpo.generation import send_whole_weights
from etude.trainers.recipe.scale import Lora


def sent_weights(folder: Path, rank: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the weights that are sent, and those of the model afterwards, which sending must not change."""
    sharded = distributed.is_initialized()
    policy = load(folder, 2 if sharded else 0)
    torch.manual_seed(0)
    if rank:
        policy = add_adapters(policy, Lora(rank=rank))
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter)
    vllm: Any = VLLMGeneration.__new__(VLLMGeneration)
    with launched():
        vllm.model, vllm._dist = policy, DistributedBackend(Accelerator(cpu=True))
    if sharded:
        send_whole_weights(vllm, policy)
    with torch.no_grad():
        weights = {name: parameter.clone() for name, parameter in vllm._iter_named_params()}
        inner = policy.get_base_model() if rank else policy
        after = {name: _whole(parameter).clone() for name, parameter in inner.named_parameters()}
    return weights, after


def _whole(parameter: Any) -> Tensor:
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter


@pytest.mark.parametrize("rank", [0, 3])
def test_sharded_weights_are_sent_as_those_of_one_process(rank: int, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model")
    expected, after = sent_weights(folder, rank)
    assert not rank or not torch.equal(
        expected["model.layers.0.mlp.up_proj.weight"], load(folder).model.layers[0].mlp.up_proj.weight
    )
    for weights, left in run_on_ranks(2, sent_weights, tmp_path, folder, rank):
        assert weights.keys() == expected.keys() == dict(load(folder).named_parameters()).keys()
        for name, value in expected.items():
            torch.testing.assert_close(weights[name], value)
        assert left.keys() == after.keys()
        for name, value in after.items():
            torch.testing.assert_close(left[name], value)
