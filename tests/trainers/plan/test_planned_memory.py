"""Planned memory of a rank against the peak of tensors in real steps at reduced sizes; nothing in it was fitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from helpers.step_memory import measured_peak
from transformers import AutoConfig

from etude.errors import RecipeError
from etude.trainers.plan.assumptions import Assumptions
from etude.trainers.plan.hardware import GIB, GPUS
from etude.trainers.plan.mesh import Mesh
from etude.trainers.plan.model_shapes import model_shapes
from etude.trainers.plan.step import memory_of_a_rank, plan_step
from etude.trainers.plan.traced_step import Passes, trace
from etude.trainers.recipe.scale import Lora

SMALL = {
    "model_type": "qwen3",
    "hidden_size": 128,
    "num_hidden_layers": 5,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 128,
    "intermediate_size": 384,
    "vocab_size": 4096,
    "tie_word_embeddings": True,
}
"""Qwen3-0.6B, an eighth as wide."""
LARGE = {
    **SMALL,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "head_dim": 64,
    "intermediate_size": 768,
    "vocab_size": 2048,
    "tie_word_embeddings": False,
}
"""Qwen3-8B, a sixteenth as wide."""
EXPERTS = {
    **LARGE,
    "model_type": "qwen3_moe",
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_key_value_heads": 1,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 48,
    "decoder_sparse_step": 1,
}
"""Qwen3-30B-A3B, a sixteenth as wide, an eighth of the experts."""
LORA = Lora(rank=8)
LATENT = {
    "model_type": "deepseek_v3",
    "hidden_size": 128,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_routed_experts": 16,
    "num_experts_per_tok": 4,
    "n_shared_experts": 1,
    "moe_intermediate_size": 64,
    "intermediate_size": 256,
    "first_k_dense_replace": 1,
    "q_lora_rank": 64,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "vocab_size": 2048,
    "n_group": 1,
    "topk_group": 1,
}
"""DeepSeek-V3: another architecture, whose first layer differs from the others."""
CASES: dict[str, tuple[dict[str, Any], int, int, dict[str, Any]]] = {
    "0.6B": (SMALL, 1, 512, {}),
    "0.6B, two rows, bfloat16": (SMALL, 2, 256, {"half": True}),
    "0.6B, checkpointing, distillation": (SMALL, 1, 512, {"checkpointing": True, "distillation": True}),
    "8B, LoRA, checkpointing, bfloat16": (LARGE, 1, 512, {"half": True, "checkpointing": True, "lora": LORA}),
    "8B, the same with distillation": (
        LARGE,
        1,
        512,
        {"half": True, "checkpointing": True, "lora": LORA, "distillation": True},
    ),
    "30B-A3B": (EXPERTS, 1, 256, {}),
    "30B-A3B, LoRA, checkpointing, bfloat16": (
        EXPERTS,
        1,
        256,
        {"half": True, "checkpointing": True, "lora": LORA},
    ),
    "DeepSeek-V3, checkpointing": (LATENT, 1, 512, {"checkpointing": True}),
    "hold-out: 0.6B, width 320, 7 layers": (
        {**SMALL, "hidden_size": 320, "num_hidden_layers": 7, "intermediate_size": 960, "num_attention_heads": 5},
        1,
        768,
        {"checkpointing": True},
    ),
    "hold-out: 30B-A3B, 6 layers, 32 experts": (
        {**EXPERTS, "num_hidden_layers": 6, "num_experts": 32},
        1,
        1024,
        {"half": True, "checkpointing": True, "lora": Lora(rank=16, targets=("q_proj", "v_proj"))},
    ),
}


def planned_peak(table: dict[str, Any], rows: int, length: int, **options: Any) -> float:
    shapes = model_shapes(AutoConfig.for_model(**table), options.get("lora"))
    assumptions = Assumptions(
        length=length,
        micro=rows,
        half=int(options.get("half", False)),
        recompute=float(options.get("checkpointing", False)),
        distillation=int(options.get("distillation", False)),
        copies=int(options.get("distillation", False) and "lora" not in options),
        muon=0,
    )
    return sum(memory_of_a_rank(shapes, Mesh(1), assumptions, gpu=False).values())


SLOW = [name for name in CASES if "hold-out" in name or "distillation" in name]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in CASES])
def test_planned_memory_is_that_of_a_real_step(name: str) -> None:
    table, rows, length, options = CASES[name]
    planned, measured = planned_peak(table, rows, length, **options), measured_peak(table, rows, length, **options)
    assert planned == pytest.approx(measured, rel=0.1), f"{planned / 2**20:.1f} MiB, {measured / 2**20:.1f} MiB"


def test_few_layers_stand_for_many() -> None:
    passes = Passes(2, 256, half=True, checkpointing=True, distillation=True)
    low, middle, high = (
        trace(AutoConfig.for_model(**{**SMALL, "num_hidden_layers": layers}), passes) for layers in (4, 6, 8)
    )
    assert high.activations - middle.activations == middle.activations - low.activations > 0
    mixed = AutoConfig.for_model(**{**SMALL, "num_hidden_layers": 6, "use_sliding_window": True, "sliding_window": 999})
    mixed.layer_types = ["full_attention", "sliding_attention"] * 3  # no two models stand for this one
    assert trace(mixed, passes).activations > middle.activations, "a mask for each kind of attention"


def test_shards_divide_weights_and_gather_them_to_sample() -> None:
    shapes = model_shapes(AutoConfig.for_model(**EXPERTS), LORA)
    given = Assumptions(tokens=2048, length=256, muon=0, recompute=1)
    one, four = (memory_of_a_rank(shapes, Mesh(shards), given) for shards in (1, 4))
    assert four["frozen weights"] == one["frozen weights"] / 4 == shapes.total * 2 / 4
    assert four["adapters, gradients and states"] == one["adapters, gradients and states"] == 16 * shapes.adapters
    sampling = memory_of_a_rank(shapes, Mesh(4), replace(given, sampling=1, tokens=2**18))
    cache = 2**16 * 4 * 2 * 64 * 2
    passes = ("two gathered layers and the head", "activations", "temporary tensors")
    total = sum(sampling[name] for name in (*passes, "sampling beyond the passes"))
    assert total == 2 * shapes.total + cache


def test_attention_on_a_gpu_stores_no_scores() -> None:
    """Queries of 48 and values of 32 make the CPU's kernel store them."""
    config = AutoConfig.for_model(**LATENT)
    short, long = (trace(config, Passes(1, length, checkpointing=True, gpu=True)).temporary for length in (2048, 8192))
    scores = 4 * 8192**2 * 4
    assert long < 4.5 * short and long < scores + 8192**2 * 4
    assert trace(config, Passes(1, 8192, checkpointing=True, gpu=False)).temporary > 2 * scores


def test_vllm_takes_its_share() -> None:
    shapes = model_shapes(AutoConfig.for_model(**SMALL))
    plan = plan_step(shapes, Mesh(1), GPUS["h100"], Assumptions(length=64, vllm=0.3))
    assert plan.memory["vLLM"] == 0.3 * 80 * GIB


def test_adapters_have_fewer_operations_and_sum_only_their_gradients() -> None:
    config = AutoConfig.for_model(**LARGE)
    given = Assumptions(tokens=2048, length=256, muon=0)
    full, adapted = (
        plan_step(model_shapes(config, lora), Mesh(4), GPUS["h100"], given) for lora in (Lora(), Lora(rank=8))
    )
    assert adapted.flops == full.flops * 3 / 4, "frozen weights need no gradient"
    names = {line.name for line in adapted.collectives}
    assert "sum adapters' gradients" in names and "scatter dense gradients" not in names


def test_model_whose_passes_do_not_run_without_values_gets_one_line() -> None:
    config = AutoConfig.for_model("bamba")
    with pytest.raises(RecipeError, match=r"^the memory of a bamba model cannot be planned, ") as raised:
        trace(config, Passes(1, 64))
    assert "\n" not in str(raised.value)
