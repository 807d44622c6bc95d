"""Options of Muon: scales of the learning rate, and checks of what was given."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from .coefficients import coefficients

SCALES: dict[str, Callable[[int, int], float]] = {
    "moonlight": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
    "spectral": lambda rows, columns: math.sqrt(rows / columns),
    "original": lambda rows, columns: math.sqrt(max(1.0, rows / columns)),
}
"""Factor of the learning rate for a matrix [r, c]. ``moonlight`` gives updates the size of AdamW's, so that its rate
and weight decay can be used (arXiv:2502.16982); ``spectral`` bounds the change of outputs (arXiv:2310.17813)."""


def check_options(
    lr: float | Tensor,
    adamw_lr: float | Tensor,
    weight_decay: float,
    momentum: float,
    scale: str,
    neuron_beta: float | None,
) -> None:
    """Raise ValueError for an option out of range."""
    for name, rate in (("lr", lr), ("adamw_lr", adamw_lr)):
        if not isinstance(rate, Tensor) and not 0 <= rate < math.inf:
            raise ValueError(f"{name} must be at least 0 and finite, got {rate}")
    if weight_decay < 0:
        raise ValueError(f"weight_decay must not be negative, got {weight_decay}")
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be at least 0 and less than 1, got {momentum}")
    if scale not in SCALES:
        raise ValueError(f"unknown scale {scale!r}; choose one of {', '.join(SCALES)}")
    if neuron_beta is not None and not 0 <= neuron_beta < 1:
        raise ValueError(f"neuron_beta must be at least 0 and less than 1, got {neuron_beta}")


def check_details(name: str, steps: int | None, betas: tuple[float, float], eps: float, bucket: int) -> None:
    """Raise ValueError for coefficients, decays of AdamW or a bucket out of range."""
    coefficients(name, steps)
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas must be at least 0 and less than 1, got {betas}")
    if eps < 0:
        raise ValueError(f"eps must not be negative, got {eps}")
    if bucket < 1:
        raise ValueError(f"bucket must be at least 1, got {bucket}")
