"""A Qwen3-style language model with random weights."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from ..recipe.recipe import Sizes

CONTEXT = 32_768
"""Positions; they cost nothing, since they are rotations."""


def make_model(sizes: Sizes, tokenizer: Any, seed: int) -> Any:
    """In float32 on the CPU; tied embeddings, at most half as many key heads as query heads; a function of the seed."""
    torch.manual_seed(seed)
    keys = next(each for each in range(max(sizes.heads // 2, 1), 0, -1) if sizes.heads % each == 0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=sizes.hidden,
        intermediate_size=2 * sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=keys,
        head_dim=sizes.hidden // sizes.heads,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)
