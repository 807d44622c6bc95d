"""How hard each channel pulls: the norm of its own gradient, its weight included.

Weights alone do not tell, since the channels' losses are not on one scale: in ``research/error_turns`` distillation's
gradient was 7 to 13 times GRPO's at equal weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from accelerate.utils import DistributedType
from torch import Tensor

from ..run.metrics_summary import GRADIENT

_WHOLE = (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU)


def gradient_norms(terms: Mapping[str, Tensor], model: Any) -> dict[str, float]:
    """L2 norms over all parameters that learn, as metrics; a term that reaches none has none.

    It costs a backward pass of each term, and keeps the graphs for the pass to come, which it does not change.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = {}
    for name, term in terms.items():
        if term.requires_grad:
            each = torch.autograd.grad(term, parameters, retain_graph=True, allow_unused=True)
            found[GRADIENT + name] = float(torch.nn.utils.get_total_norm([grad for grad in each if grad is not None]))
    return found


def due(trainer: Any, every: int) -> bool:
    """In the first micro-batch of the first of so many steps; never where a parameter is shared out over ranks."""
    first = trainer._step % trainer.current_gradient_accumulation_steps == 0
    whole = trainer.accelerator.distributed_type in _WHOLE
    return bool(every and trainer.model.training and first and whole and trainer.state.global_step % every == 0)
