"""Table of a recipe for asynchronous training: episodes are played while the policy learns."""

from __future__ import annotations

from pydantic import Field

from .typed_toml import Table


class Asynchronous(Table):
    """Asynchronous training with TRL's AsyncGRPOTrainer and a vLLM server (``trainers/asynchronous``)."""

    episodes: int = Field(default=0, ge=0)
    """Episodes that are played at the same time; 0 plays a batch of episodes before each step."""
    max_staleness: int = Field(default=4, ge=0)
    """Weight transfers after which an episode is too old to learn from."""
    sync_every: int = Field(default=1, ge=1)
    """Optimizer steps between two transfers of the weights to the vLLM server."""
    queue: int = Field(default=1024, ge=1)
    """Episodes that may wait to be learned from."""
