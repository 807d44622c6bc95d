"""Tables of a recipe for models that one process cannot train whole: low-rank adapters and sharded weights."""

from __future__ import annotations

from pydantic import Field

from .typed_toml import Table


class Lora(Table):
    """Low-rank adapters (LoRA, arXiv:2106.09685): W + alpha / rank * B A, where only A and B are trained."""

    rank: int = Field(default=0, ge=0)
    """Rank of the adapters; 0 trains all weights."""
    alpha: float = Field(default=32.0, gt=0)
    """Scale of the adapters, divided by their rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of an adapter's inputs that is dropped in training."""
    targets: tuple[str, ...] = ()
    """Names of the modules that get an adapter, such as "q_proj"; empty for every linear layer except the head."""


class Sharding(Table):
    """Division of weights, gradients and optimizer states over processes (FSDP2)."""

    shards: int = Field(default=0, ge=0)
    """Processes that share one copy of the weights. With fewer than all processes, there are several copies (HSDP).
    With 0 every process has a whole copy (DDP)."""
