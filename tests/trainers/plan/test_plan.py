"""Plans: operations and bytes equal to what is counted in real steps, the trillion-parameter model, bad requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.ranks import run_on_ranks
from helpers.sharded_training import MESHES, count
from helpers.small_transformer import SmallTransformer
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM
from typer.testing import CliRunner

from etude.cli.app import app
from etude.errors import RecipeError
from etude.trainers.muon import Muon, divide
from etude.trainers.muon.sharding.exchange_plan import make_buckets
from etude.trainers.plan.assumptions import Assumptions
from etude.trainers.plan.hardware import GPUS
from etude.trainers.plan.mesh import Mesh, parse_mesh
from etude.trainers.plan.model_shapes import Parameter, model_shapes, read_config
from etude.trainers.plan.page import changed, plan_of
from etude.trainers.plan.step import elements_sent, layouts_of, plan_step

DENSE = {
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 96,
    "vocab_size": 128,
}
SPARSE = {
    **DENSE,
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "decoder_sparse_step": 1,
    "tie_word_embeddings": True,
}
TRILLION = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "n_routed_experts": 384,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "moe_intermediate_size": 2048,
    "intermediate_size": 18432,
    "first_k_dense_replace": 1,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 163840,
    "n_group": 1,
    "topk_group": 1,
}
"""Published sizes of Kimi K2 (arXiv:2507.20534)."""


def _config(table: dict[str, Any]) -> Any:
    return AutoConfig.for_model(**table)


@pytest.mark.parametrize("table", [DENSE, SPARSE])
def test_parameters_and_muon_operations_are_those_of_the_model(table: dict[str, Any]) -> None:
    shapes = model_shapes(_config(table))
    model = AutoModelForCausalLM.from_config(_config(table))
    assert shapes.total == sum(parameter.numel() for parameter in model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer = Muon(divide(model))
    with FlopCounterMode(display=False) as counter:
        optimizer.step()
    plan = plan_step(shapes, Mesh(1), GPUS["h100"], Assumptions())
    assert plan.muon.flops == plan.muon.busiest == counter.get_total_flops()
    assert plan.muon.bytes == 0


def test_forward_operations_are_those_that_torch_counts() -> None:
    model = AutoModelForCausalLM.from_config(_config(DENSE), attn_implementation="eager")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(2, 40, dtype=torch.long), use_cache=False)
    assert model_shapes(_config(DENSE)).forward_flops(80, 40, causal=False) == counter.get_total_flops()


@pytest.mark.parametrize("mesh", ["fsdp4", "hsdp2x4", "dual", "cp2xep8"])
def test_muon_bytes_are_those_that_ranks_send(mesh: str, tmp_path: Path) -> None:
    sent = sum(each for each, _ in run_on_ranks(MESHES[mesh], count, tmp_path, mesh))
    replicas = 2 if mesh in {"hsdp2x4", "dual"} else 1
    together = mesh in {"dual", "cp2xep8"}  # experts are whole on ranks of their own mesh
    parameters = [
        Parameter(each.name, tuple(each.parameter.shape), each.blocks, together and "experts" in each.name, False)
        for each in divide(SmallTransformer())
        if each.blocks is not None
    ]
    spread = layouts_of(parameters, Mesh(MESHES[mesh], replicas, 8 if together else 1))
    blocks = [parameter.blocks for parameter in parameters if parameter.blocks]
    buckets = make_buckets([parameter.shape for parameter in parameters], blocks, spread)
    assert sent == 4 * elements_sent(buckets, spread)


def test_trillion_parameters_take_muon_a_fifth_of_a_second_on_256_gpus() -> None:
    """Cursor published 0.2 s for a trillion parameters, without the number of GPUs."""
    shapes = model_shapes(_config(TRILLION))
    assert (round(shapes.total / 1e12, 3), round(shapes.active / 1e9, 1)) == (1.026, 31.7)
    plan = plan_step(shapes, parse_mesh("", 256, shapes.experts), GPUS["b200"], Assumptions(tokens=2**24))
    assert round(plan.muon.flops / 1e15, 1) == 47.7
    assert plan.muon.busiest < 1.1 * plan.muon.flops / 256
    assert 0.1 < plan.muon.seconds < 0.4
    assert plan.muon_share < 0.01


def test_more_gpus_take_less_memory_and_time() -> None:
    shapes = model_shapes(_config(SPARSE))
    few, many = (plan_step(shapes, parse_mesh("", gpus, 8), GPUS["h100"], Assumptions()) for gpus in (2, 8))
    assert many.seconds < few.seconds
    assert sum(many.memory.values()) < sum(few.memory.values())


def test_replicas_sum_gradients_and_sequences_are_divided() -> None:
    shapes = model_shapes(_config(SPARSE))
    plain = plan_step(shapes, parse_mesh("", 8, 8), GPUS["h100"], Assumptions())
    mixed = plan_step(shapes, parse_mesh("replicas=2,context=2", 8, 8), GPUS["h100"], Assumptions())
    assert {line.name for line in mixed.collectives} - {line.name for line in plain.collectives} == {
        "sum replicas' gradients",
        "keys and values of other parts",
    }
    assert mixed.memory["activations"] <= plain.memory["activations"] / 2


@pytest.mark.parametrize(
    ("mesh", "gpus", "message"),
    [
        ("replicas=3", 8, "--mesh replicas=3 does not divide 8 GPUs; choose a divisor"),
        ("experts=16", 16, "--mesh experts=16 does not divide 8 experts; choose a divisor"),
        ("context=2,", 7, "--mesh context=2 does not divide 7 GPUs"),
        ("shards=2", 8, "--mesh 'shards=2' is not one of replicas, experts, context with a number"),
        ("experts=²", 8, "--mesh 'experts=²' is not one of"),
        ("experts=2,experts=4", 8, "--mesh names experts twice; name it once"),
        ("", 0, "--gpus must be at least 1, got 0"),
    ],
)
def test_meshes_that_do_not_divide_are_errors(mesh: str, gpus: int, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_mesh(mesh, gpus, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("speed=1", "unknown assumption 'speed'; choose one of tokens, "),
        ("tokens=many", "assumption tokens must be a number, got 'many'"),
        ("tokens=0", "assumption tokens must be positive, got 0"),
        ("tokens=inf", "assumption tokens must be finite, got inf"),
        ("bandwidth=0", "assumption bandwidth must be positive, got 0"),
        ("overlap=3", "assumption overlap is a share, at most 1, got 3"),
        ("utilisation=nan", "assumption utilisation must be positive, got nan"),
    ],
)
def test_unknown_assumptions_are_errors(change: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        changed(Assumptions(), [change])


def test_command_prints_the_plan_of_a_config_and_of_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SPARSE))
    recipe = f'[model]\nname = "{tmp_path}"\n[environment]\nurl = "http://h"\n[generation]\nmax_ids = 4096\n'
    (tmp_path / "run.toml").write_text(recipe)
    options = ["--gpus", "8", "--mesh", "replicas=2", "-o", "micro=2", "--json"]
    for name in ("config.json", "run.toml"):
        result = CliRunner().invoke(app, ["plan", str(tmp_path / name), *options])
        assert result.exit_code == 0, result.output
        table = json.loads(result.stdout)
        assert table["mesh"] == {"gpus": 8, "replicas": 2, "experts": 8, "context": 1}
        assert table["assumptions"]["micro"] == 2
        assert table["assumptions"]["length"] == (32_768 if name == "config.json" else 4096)


def test_gpus_without_a_sequence_take_as_long_as_the_others() -> None:
    shapes, given = model_shapes(_config(DENSE)), Assumptions(tokens=2**20, length=2**15, muon=0, overlap=1.0)
    times = [plan_step(shapes, Mesh(gpus), GPUS["h100"], given).seconds for gpus in (16, 32, 256)]
    assert times[0] == pytest.approx(2 * times[1])
    assert times[2] == pytest.approx(times[1]), "32 sequences on 256 GPUs"


def test_plan_with_adamw_has_its_state_and_no_muon(tmp_path: Path) -> None:
    shapes = model_shapes(_config(DENSE))
    muon, adamw = (plan_step(shapes, Mesh(1), GPUS["h100"], Assumptions(muon=flag)) for flag in (1, 0))
    assert adamw.muon.flops == adamw.muon.seconds == 0
    assert adamw.memory["optimizer"] == 8 * shapes.total > muon.memory["optimizer"]


def test_sources_that_hold_no_model_are_errors(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(
        RecipeError, match=r"config\.json is not the config\.json of a model \('model_type'\); name one"
    ):
        plan_of(tmp_path / "config.json", 1, "h100", "")
    (tmp_path / "t5.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(
        RecipeError, match=r"t5.json is not the config.json of a causal language model \(.*\); name one"
    ):
        plan_of(tmp_path / "t5.json", 1, "h100", "")
    (tmp_path / "dense.json").write_text(json.dumps(DENSE))
    with pytest.raises(RecipeError, match="experts=2 is for mixtures of experts, which this model is not; remove it"):
        plan_of(tmp_path / "dense.json", 2, "h100", "experts=2")
    with pytest.raises(RecipeError, match="--mesh context=8 is more than length=4; lower it"):
        plan_of(tmp_path / "dense.json", 8, "h100", "context=8", ["length=4"])
    with pytest.raises(RecipeError, match="unknown GPU 'a100'; choose one of h100, h200, b200, gb300"):
        plan_of(tmp_path / "config.json", 1, "a100", "")


def test_config_that_contradicts_itself_gets_one_line(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    table = {"model_type": "gemma2", "num_hidden_layers": 3, "layer_types": ["full_attention"]}
    path.write_text(json.dumps(table))
    with pytest.raises(RecipeError, match=r"config.json is not the config.json of a model \(.*layer_types") as raised:
        read_config(path)
    assert "\n" not in str(raised.value)
