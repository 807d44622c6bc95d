"""Outer optimizer of DiLoCo and streaming DiLoCo for any PyTorch model.

A worker trains alone with an inner optimizer. ``DiLoCo.step`` follows every inner step. Fragment p of P is exchanged at
steps t with t mod H = floor(p H / P): with theta its parameters at the last exchange and theta_m those of worker m,

    delta = mean over the workers of (theta - theta_m(t)),     theta' = outer optimizer (theta, gradient delta),
    theta_m(t + tau) = alpha theta_m(t + tau) + (1 - alpha) theta',

where the sum over the workers runs during the tau inner steps after t. The outer optimizer is SGD with Nesterov
momentum. DiLoCo (arXiv:2311.08105) is P = 1, tau = 0, alpha = 0; streaming DiLoCo is arXiv:2501.18512, algorithm 2.
With H = 1, an outer learning rate of 1 and no momentum, a step with inner SGD is an ordinary data-parallel step.

Gradients must not be averaged over the workers, and buffers such as those of batch normalisation are not exchanged.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, distributed

from .replicas import broadcast, check_equal, check_shards, local_tensor


@dataclass(frozen=True)
class Settings:
    """Settings of the exchange. Raise ValueError for a value out of range."""

    inner_steps: int = 100
    """H, the inner steps between two exchanges of a fragment."""
    learning_rate: float = 0.7
    """Learning rate of the outer optimizer."""
    momentum: float = 0.9
    """Momentum of the outer optimizer."""
    nesterov: bool = True
    """Whether the momentum is Nesterov's; without momentum it has no effect."""
    overlap: int = 0
    """Tau, the inner steps during which an exchange may run."""
    mixing: float = 0.0
    """Alpha, the weight of a worker's own parameters after an exchange; 0 drops the overlapping steps."""

    def __post_init__(self) -> None:
        if self.inner_steps < 1:
            raise ValueError(f"inner_steps must be at least 1, got {self.inner_steps}")
        if not 0 <= self.overlap < self.inner_steps:
            raise ValueError(f"overlap must lie in [0, inner_steps = {self.inner_steps}), got {self.overlap}")
        if not 0 <= self.mixing < 1:
            raise ValueError(f"mixing must lie in [0, 1), got {self.mixing}; with 1 nothing would be exchanged")
        if self.learning_rate <= 0 or not 0 <= self.momentum < 1:
            raise ValueError(
                f"learning_rate must be positive and momentum in [0, 1), got {self.learning_rate}, {self.momentum}"
            )


@dataclass
class Traffic:
    """Bytes of the tensors that this rank gave to all-reduce.

    A ring sends 2 (n - 1) / n times as many from each of n workers.
    """

    total: int = 0
    """Since the start."""
    last_step: int = 0
    """In the last inner step."""
    peak_step: int = 0
    """In the inner step with the most."""

    def add_step(self, sent: int) -> None:
        """Count an inner step."""
        self.total, self.last_step, self.peak_step = self.total + sent, sent, max(self.peak_step, sent)


@dataclass
class _Exchange:
    """Exchange under way: the sum of the fragment's differences, which is complete when ``work`` is."""

    due: int
    summed: Tensor
    work: Any = field(default=None, repr=False)

    def wait(self) -> Tensor:
        if self.work is not None:
            self.work.wait()
            self.work = None
        return self.summed


class DiLoCo:
    """Exchange of the parameters of one model among the workers of a process group.

    All ranks of the group construct it at the same place, and then have the parameters of the first one.
    """

    def __init__(
        self,
        fragments: Sequence[Sequence[tuple[str, Any]]],
        settings: Settings | None = None,
        group: Any = None,
    ) -> None:
        """Take the fragments (see ``fragments``) and the group of workers; None is the default process group.

        A worker may be several ranks over which parameters are sharded (FSDP2, DTensor); ``group`` then holds the ranks
        with the same shard. Raise ValueError for a parameter that is named twice or sharded over the group, and for
        workers with different parameters.
        """
        self.settings = settings or Settings()
        self.traffic = Traffic()
        self._group = group
        self._workers = distributed.get_world_size(group)
        names = [name for fragment in fragments for name, _ in fragment]
        if not names or len(set(names)) != len(names) or not all(fragments):
            raise ValueError("each fragment needs parameters, and each parameter one fragment; use fragments.strided")
        for fragment in fragments:
            for name, parameter in fragment:
                check_shards(name, parameter, group)
        self._names = [[name for name, _ in fragment] for fragment in fragments]
        self._parameters = [[parameter for _, parameter in fragment] for fragment in fragments]
        locals_ = [local_tensor(parameter) for fragment in self._parameters for parameter in fragment]
        check_equal([(name, tuple(tensor.shape)) for name, tensor in zip(names, locals_, strict=True)], group)
        broadcast(locals_, group)
        self._outer = [[self._copy(parameter) for parameter in fragment] for fragment in self._parameters]
        self._optimizer = torch.optim.SGD(
            [tensor for fragment in self._outer for tensor in fragment],
            lr=self.settings.learning_rate,
            momentum=self.settings.momentum,
            nesterov=self.settings.nesterov and self.settings.momentum > 0,
        )
        self._step = 0
        self._exchanges: dict[int, _Exchange] = {}

    @property
    def steps(self) -> int:
        """Return the number of inner steps."""
        return self._step

    def step(self) -> list[int]:
        """Count one inner step, start and end the exchanges of this step, and return the fragments that were updated.

        Call it on every worker after every step of the inner optimizer.
        """
        self._step += 1
        starting = [place for place in range(len(self._outer)) if self._is_due(place)]
        sent = [self._start(place) for place in starting]
        self.traffic.add_step(sum(sent))
        updated = [place for place, exchange in self._exchanges.items() if exchange.due == self._step]
        for place in updated:
            self._end(place, self.settings.mixing)
        return updated

    def finish(self) -> None:
        """End the exchanges under way and exchange all fragments once more, so that all workers have the same ones."""
        for place in list(self._exchanges):
            self._end(place, self.settings.mixing)
        self.traffic.add_step(sum(self._start(place) for place in range(len(self._outer))))
        for place in list(self._exchanges):
            self._end(place, 0.0)

    def outer_parameters(self) -> dict[str, Tensor]:
        """Return the parameters at their last exchange, by name; of a sharded one, this rank's part.

        They are float32, or float64 where a parameter is.
        """
        return {
            name: tensor
            for names, fragment in zip(self._names, self._outer, strict=True)
            for name, tensor in zip(names, fragment, strict=True)
        }

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's state, after the exchanges under way have arrived.

        Each rank saves it with its own parameters and inner optimizer, which differ between exchanges.
        """
        return {
            "step": self._step,
            "names": self._names,
            "outer": [[tensor.clone() for tensor in fragment] for fragment in self._outer],
            "workers": self._workers,
            "optimizer": copy.deepcopy(self._optimizer.state_dict()),
            "exchanges": {
                place: (exchange.due, exchange.wait().clone()) for place, exchange in self._exchanges.items()
            },
            "traffic": asdict(self.traffic),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of the same rank. Raise ValueError for other fragments.

        Raise it too for another number of workers while exchanges are under way, whose sums are over the old ones.
        """
        if state["names"] != self._names:
            raise ValueError("the state has other fragments than this model; use those of the run that saved it")
        if state["exchanges"] and state["workers"] != self._workers:
            raise ValueError(
                f"exchanges among {state['workers']} workers are under way, and there are {self._workers} now; "
                "resume with the same number, or save the state after finish()"
            )
        self._step, self.traffic = state["step"], Traffic(**state["traffic"])
        for fragment, saved in zip(self._outer, state["outer"], strict=True):
            for tensor, value in zip(fragment, saved, strict=True):
                tensor.copy_(value)
        self._optimizer.load_state_dict(state["optimizer"])
        self._exchanges = {
            place: _Exchange(due, summed.to(self._outer[place][0].device, copy=True))
            for place, (due, summed) in state["exchanges"].items()
        }

    def _copy(self, parameter: Any) -> Tensor:
        tensor = local_tensor(parameter)
        return tensor.to(torch.promote_types(tensor.dtype, torch.float32), copy=True)

    def _is_due(self, place: int) -> bool:
        inner = self.settings.inner_steps
        return self._step % inner == place * inner // len(self._outer)

    def _start(self, place: int) -> int:
        """Start the exchange of a fragment and return its bytes."""
        pairs = zip(self._outer[place], self._parameters[place], strict=True)
        flat = torch.cat([(outer - local_tensor(parameter)).flatten() for outer, parameter in pairs])
        work = distributed.all_reduce(flat, group=self._group, async_op=True)
        self._exchanges[place] = _Exchange(self._step + self.settings.overlap, flat, work)
        return flat.numel() * flat.element_size()

    def _end(self, place: int, mixing: float) -> None:
        """Update a fragment with the mean of the workers' differences."""
        outer = self._outer[place]
        delta = self._exchanges.pop(place).wait() / self._workers
        for tensor, part in zip(outer, delta.split([tensor.numel() for tensor in outer]), strict=True):
            tensor.grad = part.view_as(tensor).to(tensor.dtype)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        for tensor, parameter in zip(outer, self._parameters[place], strict=True):
            worker_part = local_tensor(parameter)
            worker_part.copy_(torch.lerp(tensor, worker_part.to(tensor.dtype), mixing) if mixing else tensor)
