"""Tiny language models with random weights, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

VOCABULARY = 97
_SIZE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
}
CONFIGS: dict[str, Any] = {
    "qwen3": lambda: Qwen3Config(**_SIZE),
    "qwen3-tied": lambda: Qwen3Config(**_SIZE, tie_word_embeddings=True),
    "qwen3-moe": lambda: Qwen3MoeConfig(**_SIZE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
    "llama": lambda: LlamaConfig(**_SIZE),
    "mistral-window": lambda: MistralConfig(**_SIZE, sliding_window=8),
    "mistral-wide-window": lambda: MistralConfig(**_SIZE, sliding_window=64),
    "gemma2": lambda: Gemma2Config(**_SIZE, sliding_window=8),
    "gemma3": lambda: Gemma3TextConfig(**{**_SIZE, "num_hidden_layers": 6}, sliding_window=64),
    "qwen2-unused-window": lambda: Qwen2Config(**_SIZE, use_sliding_window=False, sliding_window=64),
}


def on_cpu(out: Path) -> dict[str, Any]:
    """Return arguments of GRPOConfig for training on the CPU without reports."""
    return {
        "output_dir": str(out),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": [],
    }


def model(name: str = "qwen3", seed: int = 0) -> Any:
    """Return a model with random weights, in float32 on the CPU."""
    torch.manual_seed(seed)
    built = AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=torch.float32)
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return built


def qwen(vocabulary: int, seed: int = 0) -> Any:
    """Return a Qwen3 with a vocabulary of this size and room for complete episodes."""
    torch.manual_seed(seed)
    config = Qwen3Config(**{**_SIZE, "vocab_size": vocabulary, "max_position_embeddings": 8192})
    built = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.2)
    return built
