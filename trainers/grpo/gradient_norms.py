"""Gradient norm of each channel: the L2 norm of the gradient of its term in the loss, weight included.

Weights alone do not show how much each channel changes the policy, because the losses have different scales: in
``research/error_turns`` the gradient of distillation was 7 to 13 times that of GRPO at equal weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import DistributedType
from torch import Tensor, distributed
from torch.distributed.tensor import DTensor

from ..distributed import sum_over_ranks, world_size
from ..report.metrics_summary import GRADIENT
from ..sharded.access import own_part

_MEASURED = (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU)


class GradientNorms:
    """Norms of one optimizer step: gradients are summed over its micro-batches and averaged over all ranks.

    The terms of a micro-batch are those of TRL's losses, which sum to the loss of the step. One gradient of the model
    is stored for each channel during the steps that are measured.
    """

    def __init__(self) -> None:
        self._sums: dict[str, list[Tensor]] = {}
        self._with_gradient: set[str] = set()
        self._parameters: list[Any] = []

    def add(self, terms: Mapping[str, Tensor], model: Any) -> None:
        """Add a micro-batch; ``terms`` are scalars by channel. Each term costs a backward pass.

        The graphs are kept, so the backward pass of the training step is unchanged.
        """
        self.begin(terms, model)
        for name, term in terms.items():
            if term.requires_grad:
                self._with_gradient.add(name)
                gradients = torch.autograd.grad(term, self._parameters, retain_graph=True, allow_unused=True)
                for total, gradient in zip(self._sums[name], gradients, strict=True):
                    if gradient is not None:
                        total.add_(gradient)

    @contextmanager
    def adding(self, name: str) -> Iterator[None]:
        """Add by how much backward passes inside change the gradients in the parameters, which stay as they are.

        For weights that are divided over ranks, whose gradients exist after a whole backward pass only. ``begin`` must
        have been called before the forward pass, which gathers the weights, so that others stand in their places. What
        is added is in CPU memory, so that measuring takes none of the device.
        """
        sums = self._sums[name]
        before = [_copied(parameter.grad, total) for parameter, total in zip(self._parameters, sums, strict=True)]
        yield
        self._with_gradient.add(name)
        for total, parameter, earlier in zip(sums, self._parameters, before, strict=True):
            total.add_(_copied(parameter.grad, total)).sub_(earlier)

    def begin(self, names: Iterable[str], model: Any) -> None:
        """Take the parameters that learn, and start the sums of the channels that have none yet."""
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for name in names:
            if name not in self._sums:
                self._sums[name] = [_zeros(parameter) for parameter in self._parameters]

    def norms(self) -> dict[str, float]:
        """Return the norm of each channel, named as metrics, and forget the step. All ranks must call it together.

        A channel without a gradient on any rank is left out.
        """
        sums, self._sums, parameters = self._sums, {}, self._parameters
        present = sum_over_ranks([int(name in self._with_gradient) for name in sums])
        result = {}
        for (name, totals), ranks in zip(sums.items(), present, strict=True):
            if ranks:
                result[GRADIENT + name] = math.sqrt(_squared_norm(totals, parameters))
        self._with_gradient, self._parameters = set(), []
        return result


def is_due(trainer: Any, every: int) -> bool:
    """Return whether to measure this step: each ``every``-th one, 0 for never.

    Norms are not measured where accelerate shards the parameters; where transformers does, they are.
    """
    measured = trainer.accelerator.distributed_type in _MEASURED
    return bool(every and trainer.model.training and measured and trainer.state.global_step % every == 0)


def is_last_micro_batch(trainer: Any) -> bool:
    """Return whether the optimizer steps after this micro-batch."""
    steps: int = trainer.current_gradient_accumulation_steps
    return bool((trainer._step + 1) % steps == 0)


def _copied(gradient: Any, total: Tensor) -> Any:
    """Return a copy of this rank's part of a gradient on the device of its sum; 0 for none."""
    return 0.0 if gradient is None else own_part(gradient).to(total.device, copy=True)


def _zeros(parameter: Any) -> Tensor:
    """Return zeros like this rank's part of a parameter, in CPU memory if it is divided."""
    part = own_part(parameter)
    return torch.zeros_like(part, device="cpu" if isinstance(parameter, DTensor) else part.device)


def _squared_norm(totals: Sequence[Tensor], parameters: Sequence[Any]) -> float:
    """Return the squared norm of a gradient's mean over ranks. All ranks must call it together.

    Gradients of divided parameters are means already, and each copy of the weights has all of them.
    """
    divided = mean = 0.0
    for total, parameter in zip(totals, parameters, strict=True):
        if isinstance(parameter, DTensor):
            share = parameter.device_mesh.size(-1) / world_size()
            divided += share * float(torch.linalg.vector_norm(total)) ** 2
            continue
        if world_size() > 1:
            distributed.all_reduce(total)
        mean += (float(torch.linalg.vector_norm(total)) / world_size()) ** 2
    return float(sum_over_ranks([divided])[0]) + mean
