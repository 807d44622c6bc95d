"""Assumptions of a plan: the training step that is planned, and figures that nothing measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumptions:
    """Figures of a plan that nothing measures."""

    tokens: int = 1_048_576
    """Tokens of one optimizer step, over all GPUs."""
    length: int = 32_768
    """Tokens of one sequence."""
    micro: int = 1
    """Sequences in one forward pass on one group of context-parallel GPUs."""
    utilisation: float = 0.4
    """Share of the GPU's operations that forward and backward passes reach."""
    muon_utilisation: float = 0.6
    """Share of the GPU's operations that Newton-Schulz products reach."""
    bandwidth: float = 0.8
    """Share of the link's bytes that collectives reach."""
    overlap: float = 0.8
    """Share of communication that computation hides, of training and of Muon."""
    recompute: float = 1.0
    """Forward passes that activation checkpointing repeats."""
    gradient: int = 4
    """Bytes of a gradient's element."""
    half: int = 1
    """Whether the computation is in bfloat16 (1) or in float32 (0)."""
    muon: int = 1
    """Whether matrices are updated by Muon (1) or by AdamW (0)."""
    distillation: int = 0
    """Whether teacher and student read every sequence once more for distillation at error turns (1) or not (0)."""
    copies: int = 0
    """Copies of all weights in float32, such as those of a frozen teacher."""
    norms: int = 0
    """Gradients that are stored to measure the norm of each channel."""
    sampling: int = 0
    """Whether transformers samples all sequences at once from gathered weights (1), or something else samples (0)."""
    vllm: float = 0.0
    """Share of the GPU that vLLM in the same process takes."""
    dollars: float = 2.5
    """Price of one GPU for an hour."""
