"""Gradient norm of each channel: the L2 norm of the gradient of its term in the loss, weight included.

Weights alone do not show how much each channel changes the policy, because the losses have different scales: in
``research/error_turns`` the gradient of distillation was 7 to 13 times that of GRPO at equal weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from accelerate.utils import DistributedType
from torch import Tensor

from ..report.metrics_summary import GRADIENT

_UNSHARDED = (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU)


def gradient_norms(terms: Mapping[str, Tensor], model: Any) -> dict[str, float]:
    """Return the norm of each term's gradient over all trainable parameters, named as metrics.

    ``terms`` are scalars by channel; a term without a gradient is left out. Each term costs a backward pass. The
    graphs are kept, so the backward pass of the training step is unchanged.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    norms = {}
    for name, term in terms.items():
        if term.requires_grad:
            gradients = torch.autograd.grad(term, parameters, retain_graph=True, allow_unused=True)
            present = [gradient for gradient in gradients if gradient is not None]
            norms[GRADIENT + name] = float(torch.nn.utils.get_total_norm(present))
    return norms


def is_due(trainer: Any, every: int) -> bool:
    """Return whether to measure now: in the first micro-batch of each ``every``-th step, 0 for never.

    Norms are not measured where parameters are sharded over ranks.
    """
    first = trainer._step % trainer.current_gradient_accumulation_steps == 0
    unsharded = trainer.accelerator.distributed_type in _UNSHARDED
    return bool(every and trainer.model.training and first and unsharded and trainer.state.global_step % every == 0)
