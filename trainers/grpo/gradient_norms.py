"""Gradient norm of each channel: the L2 norm of the gradient of its term in the loss, weight included.

Weights alone do not show how much each channel changes the policy, because the losses have different scales: in
``research/error_turns`` the gradient of distillation was 7 to 13 times that of GRPO at equal weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from accelerate.utils import DistributedType
from torch import Tensor, distributed

from ..distributed import sum_over_ranks, world_size
from ..report.metrics_summary import GRADIENT
from ..sharded.access import is_sharded

_UNSHARDED = (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU)


class GradientNorms:
    """Norms of one optimizer step: gradients are summed over its micro-batches and averaged over all ranks.

    The terms of a micro-batch are those of TRL's losses, which sum to the loss of the step. One gradient of the model
    is stored for each channel during the steps that are measured.
    """

    def __init__(self) -> None:
        self._sums: dict[str, list[Tensor]] = {}
        self._with_gradient: set[str] = set()

    def add(self, terms: Mapping[str, Tensor], model: Any) -> None:
        """Add a micro-batch; ``terms`` are scalars by channel. Each term costs a backward pass.

        The graphs are kept, so the backward pass of the training step is unchanged.
        """
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for name, term in terms.items():
            if name not in self._sums:
                self._sums[name] = [torch.zeros_like(parameter) for parameter in parameters]
            if term.requires_grad:
                self._with_gradient.add(name)
                gradients = torch.autograd.grad(term, parameters, retain_graph=True, allow_unused=True)
                for total, gradient in zip(self._sums[name], gradients, strict=True):
                    if gradient is not None:
                        total.add_(gradient)

    def norms(self) -> dict[str, float]:
        """Return the norm of each channel, named as metrics, and forget the step. All ranks must call it together.

        A channel without a gradient on any rank is left out.
        """
        sums, self._sums = self._sums, {}
        present = sum_over_ranks([int(name in self._with_gradient) for name in sums])
        result = {}
        for (name, totals), ranks in zip(sums.items(), present, strict=True):
            if world_size() > 1:
                for total in totals:
                    distributed.all_reduce(total)
            if ranks:
                norm = float(torch.nn.utils.get_total_norm(totals))
                result[GRADIENT + name] = norm / world_size()
        self._with_gradient = set()
        return result


def is_due(trainer: Any, every: int) -> bool:
    """Return whether to measure this step: each ``every``-th one, 0 for never.

    Norms are not measured where parameters are sharded over ranks.
    """
    unsharded = trainer.accelerator.distributed_type in _UNSHARDED and not is_sharded(trainer.model)
    return bool(every and trainer.model.training and unsharded and trainer.state.global_step % every == 0)


def is_last_micro_batch(trainer: Any) -> bool:
    """Return whether the optimizer steps after this micro-batch."""
    steps: int = trainer.current_gradient_accumulation_steps
    return bool((trainer._step + 1) % steps == 0)
