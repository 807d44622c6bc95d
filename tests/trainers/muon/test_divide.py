"""Division of models: Hugging Face architectures, torch's attention, overrides, what is printed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.small_transformer import SmallTransformer
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from etude.trainers.muon import COLUMNS, ROWS, Blocks, describe, divide

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 128,
}


def _divisions(kind: str, **options: Any) -> dict[str, Blocks | None]:
    """Return the divisions of a model without values, by the last two parts of the names."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**SIZES, **options}))
    names = {division.name.removesuffix(".weight"): division.blocks for division in divide(model)}
    return {".".join(name.split(".")[-2:]): blocks for name, blocks in names.items()}


def _heads(number: int, size: int = 16, dim: int = ROWS) -> Blocks:
    return Blocks("head", dim, (size,) * number)


def test_grouped_query_attention_is_divided_by_heads() -> None:
    found = _divisions("qwen3", head_dim=32)
    assert found["self_attn.q_proj"] == _heads(4, 32)
    assert found["self_attn.k_proj"] == found["self_attn.v_proj"] == _heads(2, 32)
    assert found["self_attn.o_proj"] == _heads(4, 32, COLUMNS)
    assert found["mlp.gate_proj"] == found["mlp.down_proj"] == Blocks()
    assert not any(found[name] for name in ("lm_head", "model.embed_tokens", "self_attn.q_norm", "model.norm"))


def test_latent_attention_is_divided_by_heads_and_by_keys_and_values() -> None:
    found = _divisions(
        "deepseek_v3",
        num_hidden_layers=2,
        q_lora_rank=32,
        kv_lora_rank=32,
        qk_rope_head_dim=8,
        qk_nope_head_dim=16,
        v_head_dim=12,
        n_routed_experts=4,
        n_group=1,
        topk_group=1,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        first_k_dense_replace=1,
    )
    assert found["self_attn.q_a_proj"] == Blocks()
    assert found["self_attn.q_b_proj"] == _heads(4, 24)
    assert found["self_attn.kv_a_proj_with_mqa"] == Blocks("part", ROWS, (32, 8))
    assert found["self_attn.kv_b_proj"] == Blocks("head", ROWS, (16, 12) * 4)
    assert found["self_attn.o_proj"] == _heads(4, 12, COLUMNS)
    assert found["experts.gate_up_proj"] == Blocks("expert", ROWS, (24, 24))
    assert found["experts.down_proj"] == Blocks("expert")


@pytest.mark.parametrize(
    ("kind", "options", "name", "blocks"),
    [
        ("phi3", {"pad_token_id": 0}, "self_attn.qkv_proj", _heads(8)),
        ("phi3", {"pad_token_id": 0}, "mlp.gate_up_proj", Blocks("part", ROWS, (96, 96))),
        ("gpt_neox", {}, "attention.query_key_value", _heads(12)),
        ("gpt_neox", {}, "attention.dense", _heads(4, dim=COLUMNS)),
        ("gpt2", {"n_embd": 64, "n_layer": 1, "n_head": 4}, "attn.c_attn", _heads(12, dim=COLUMNS)),
        ("gpt2", {"n_embd": 64, "n_layer": 1, "n_head": 4}, "attn.c_proj", _heads(4)),
        ("gpt2", {"n_embd": 64, "n_layer": 1, "n_head": 4}, "mlp.c_proj", Blocks()),
        ("opt", {"ffn_dim": 96, "word_embed_proj_dim": 64}, "self_attn.out_proj", _heads(4, dim=COLUMNS)),
        ("falcon", {}, "self_attention.query_key_value", _heads(6)),
        ("mixtral", {"num_local_experts": 4}, "experts.gate_up_proj", Blocks("expert", ROWS, (96, 96))),
        ("llama4_text", {"num_local_experts": 4}, "experts.gate_up_proj", Blocks("expert", COLUMNS, (96, 96))),
        ("gpt_oss", {"num_local_experts": 4, "head_dim": 16}, "experts.gate_up_proj", Blocks("expert")),
        ("gpt_oss", {"num_local_experts": 4, "head_dim": 16}, "experts.gate_up_proj_bias", None),
        ("olmoe", {"num_experts": 4}, "mlp.gate", Blocks()),
    ],
)
def test_other_architectures_are_divided(kind: str, options: dict[str, Any], name: str, blocks: Blocks | None) -> None:
    assert _divisions(kind, **options)[name] == blocks


def test_torch_attention_is_divided_by_heads() -> None:
    model = nn.TransformerEncoderLayer(24, 4, 32)
    found = {division.name: division.blocks for division in divide(model)}
    assert found["self_attn.in_proj_weight"] == _heads(12, 6)
    assert found["self_attn.out_proj.weight"] == _heads(4, 6, COLUMNS)
    assert found["self_attn.in_proj_bias"] is None
    assert found["linear1.weight"] == Blocks()


class Projections(nn.Module):
    """Layers of some names, and attributes, beside each other."""

    def __init__(self, layers: dict[str, nn.Module], **attributes: object) -> None:
        super().__init__()
        for name, value in {**layers, **attributes}.items():
            setattr(self, name, value)


def test_the_size_of_heads_comes_from_the_module_before_the_configuration() -> None:
    names = ("q_proj", "k_proj", "v_proj", "out_proj")
    vision = Projections({name: nn.Linear(32, 32) for name in names}, num_heads=2, embed_dim=32)
    model = Projections({"vision": vision}, config=type("Config", (), {"head_dim": 4})())
    found = {division.name: division.blocks for division in divide(model)}
    assert found["vision.q_proj.weight"] == _heads(2, 16)
    assert found["vision.out_proj.weight"] == _heads(2, 16, COLUMNS)


def test_layers_with_names_of_attention_elsewhere_stay_whole() -> None:
    text = Projections({"dense": nn.Linear(16, 16)}, query="text", head_dim=4)
    critic = Projections({"value": nn.Linear(16, 8), "c_proj": nn.Linear(16, 16)}, head_dim=4)
    model = nn.ModuleDict({"text": text, "critic": critic})
    assert {division.blocks for division in divide(model) if division.blocks} == {Blocks()}


def test_wrapped_projections_and_embeddings_are_found() -> None:
    attention = SmallTransformer().layers[0].attention
    attention.q_proj = Projections({"base_layer": attention.q_proj})
    model = Projections({"attention": attention, "bag": nn.EmbeddingBag(9, 4), "head": nn.Linear(4, 9, bias=False)})
    model.head.weight = model.bag.weight
    found = {division.name: division.blocks for division in divide(model)}
    assert found["attention.q_proj.base_layer.weight"] == _heads(3, 6)
    assert found["bag.weight"] is None and "head.weight" not in found


def test_convolutions_and_single_rows_are_for_adamw() -> None:
    model = nn.ModuleDict({"conv": nn.Conv1d(8, 8, 4), "gate": nn.Linear(16, 1), "proj": nn.Linear(16, 8)})
    found = {division.name: division.algorithm for division in divide(model)}
    assert [name for name, algorithm in found.items() if algorithm == "muon"] == ["proj.weight"]


def test_frozen_and_tied_parameters_are_left_out() -> None:
    model = SmallTransformer()
    model.lm_head.weight = model.embed_tokens.weight
    model.layers[0].requires_grad_(False)
    names = [division.name for division in divide(model)]
    assert "lm_head.weight" not in names
    assert not any(name.startswith("layers.0.") for name in names)
    assert {division.algorithm for division in divide(model) if "embed" in division.name} == {"adamw"}


def test_overrides_decide_in_their_order() -> None:
    halves = Blocks("part", ROWS, (10, 10))
    model = SmallTransformer()
    found = {d.name: d.blocks for d in divide(model, {"layers.0.dense.weight": halves, "*.dense.*": "adamw"})}
    assert found["layers.0.dense.weight"] == halves
    assert found["layers.1.dense.weight"] is None


def test_unsuitable_models_and_overrides_are_errors() -> None:
    model = SmallTransformer()
    with pytest.raises(ValueError, match=r"no trainable parameter matches '\*\.nothing'; check the pattern"):
        divide(model, {"*.nothing": "adamw"})
    with pytest.raises(ValueError, match=r"blocks of 12 in all do not fill dimension -2 of \(20, 20\)"):
        divide(model, {"layers.0.dense.weight": Blocks("part", ROWS, (6, 6))})
    with pytest.raises(ValueError, match=r"shape \(20,\) is neither a matrix nor a stack of matrices; use AdamW"):
        divide(model, {"layers.0.dense.bias": Blocks()})
    with pytest.raises(ValueError, match="an override is Blocks or 'adamw', got 'sgd'"):
        divide(model, {"layers.0.*": "sgd"})
    model.requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter needs a gradient; unfreeze the model or add adapters"):
        divide(model)


def test_description_has_a_line_for_layers_that_are_alike() -> None:
    lines = [" ".join(line.split()) for line in describe(divide(SmallTransformer())).splitlines()]
    assert "layers.*.attention.q_proj.weight 18 x 20 2 Muon by head: 3 of 6 x 20" in lines
    assert "layers.*.experts.gate_up_proj 8 x 20 x 20 2 Muon by expert: 16 of 10 x 20" in lines
    assert "embed_tokens.weight 17 x 20 1 AdamW" in lines
