"""Table of a recipe for the optimizer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .typed_toml import Table

_Decay = Annotated[float, Field(ge=0, lt=1)]


class Optimizer(Table):
    """Optimizer of the policy's weights; its learning rate and weight decay are in ``train``."""

    name: Literal["adamw", "muon"] = "adamw"
    """AdamW for all parameters, or Muon for matrices, each head and expert on its own, and AdamW for the others."""
    momentum: float = Field(default=0.95, ge=0, lt=1)
    """Muon: share of the momentum that stays at each step."""
    nesterov: bool = True
    """Muon: whether the momentum looks ahead."""
    scale: Literal["moonlight", "spectral", "original"] = "moonlight"
    """Muon: factor of the learning rate by a matrix's shape; "moonlight" is for learning rates of AdamW."""
    coefficients: Literal["polar_express", "jordan", "you", "exact"] = "polar_express"
    """Muon: coefficients of the Newton-Schulz iteration."""
    method: Literal["direct", "gram"] = "direct"
    """Muon: whether the iteration acts on matrices or on their Gram matrices."""
    cautious: bool = False
    """Muon: whether weight decay acts only where it does not oppose the update."""
    neuron_beta: float = Field(default=0.0, ge=0, lt=1)
    """Muon: decay of NorMuon's second moment for each row; 0 for none."""
    adamw_learning_rate: float = Field(default=0.0, ge=0)
    """Muon: learning rate of the parameters that AdamW updates; 0 for ``train.learning_rate``."""
    betas: tuple[_Decay, _Decay] = (0.9, 0.95)
    """Muon: decays of the parameters that AdamW updates. With the name "adamw" the decays are 0.9 and 0.999."""
