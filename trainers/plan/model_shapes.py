"""Shapes of a model that a plan counts: built without values from its configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from ...errors import RecipeError
from ..muon.blocks import Blocks
from ..muon.divide import divide
from ..recipe.scale import Lora
from ..run.memory_check import sizes_of

EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")
"""Names in configs for the number of experts of a layer."""
CHOSEN = ("num_experts_per_tok", "moe_topk")
"""Names in configs for the number of experts that a token uses."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of the model."""

    name: str
    shape: tuple[int, ...]
    blocks: Blocks | None
    """Its matrices for Muon; None for AdamW."""
    is_expert: bool
    """Whether a token reaches it only through the router."""
    is_looked_up: bool
    """Whether it is an embedding, which multiplies nothing."""

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return torch.Size(self.shape).numel()


@dataclass(frozen=True)
class ModelShapes:
    """What a plan knows of a model."""

    parameters: tuple[Parameter, ...]
    layers: int
    hidden: int
    vocabulary: int
    heads: int
    query: int
    """Size of a query of one head."""
    value: int
    """Size of a value of one head."""
    experts: int
    """Experts of one layer; 0 for a dense model."""
    chosen: int
    """Experts that a token uses."""
    config: Any
    """Configuration of the model."""
    lora: Lora = Lora()
    """Adapters; their rank may be 0."""
    adapters: int = 0
    """Parameters of the adapters."""

    @property
    def total(self) -> int:
        """Return the number of parameters."""
        return sum(parameter.size for parameter in self.parameters)

    @property
    def expert_size(self) -> int:
        """Return the number of parameters in experts."""
        return sum(parameter.size for parameter in self.parameters if parameter.is_expert)

    @property
    def active(self) -> float:
        """Return the parameters that one token is multiplied with."""
        share = self.chosen / self.experts if self.experts else 0
        return sum(
            parameter.size * (share if parameter.is_expert else 1)
            for parameter in self.parameters
            if len(parameter.shape) > 1 and not parameter.is_looked_up
        )

    def forward_flops(self, tokens: int, length: int, *, causal: bool = True) -> float:
        """Return the operations of matrix products of one forward pass over sequences of ``length`` tokens.

        A causal attention computes half of the products of queries and keys.
        """
        attention = 2 * self.layers * self.heads * (self.query + self.value) * length * (0.5 if causal else 1)
        return tokens * (2 * self.active + attention)


def read_config(path: Path) -> Any:
    """Return the configuration in a Hugging Face ``config.json``. Raise RecipeError."""
    try:
        table = json.loads(path.read_text("utf-8"))
        return AutoConfig.for_model(table.pop("model_type"), **table)
    except (OSError, AttributeError, TypeError, ValueError, KeyError, StrictDataclassError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RecipeError(f"{path} is not the config.json of a model ({reason}); name one") from error


def model_shapes(config: Any, lora: Lora | None = None) -> ModelShapes:
    """Return the shapes of a causal language model, with adapters if they are asked for. Nothing is allocated.

    Raise RecipeError for targets of adapters that fit no module.
    """
    lora = lora or Lora()
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    text = config.get_text_config()
    looked_up = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    if text.tie_word_embeddings:  # the one matrix is looked up and multiplied with
        looked_up.discard(id(model.get_output_embeddings().weight))
    parameters = tuple(
        Parameter(
            division.name,
            tuple(division.parameter.shape),
            division.blocks,
            ".experts." in f"{division.name}." or (division.blocks is not None and division.blocks.kind == "expert"),
            id(division.parameter) in looked_up,
        )
        for division in divide(model)
    )
    heads = text.num_attention_heads
    head = getattr(text, "head_dim", None) or text.hidden_size // heads
    rotary = getattr(text, "qk_rope_head_dim", None)
    query = rotary + text.qk_nope_head_dim if rotary and hasattr(text, "qk_nope_head_dim") else head
    return ModelShapes(
        parameters,
        text.num_hidden_layers,
        text.hidden_size,
        text.vocab_size,
        heads,
        query,
        getattr(text, "v_head_dim", None) or head,
        _first(text, *EXPERTS),
        _first(text, *CHOSEN),
        config,
        lora,
        sizes_of(model, lora).adapters,
    )


def _first(config: Any, *names: str) -> int:
    return next((value for name in names if isinstance(value := getattr(config, name, None), int)), 0)
