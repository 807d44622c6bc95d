"""Muon: momentum whose matrices are orthogonalized one by one, with AdamW for all other parameters.

For a matrix W [r, c] with gradient G, momentum mu, learning rate eta, weight decay lambda (Jordan et al. 2024; Liu et
al. 2025, arXiv:2502.16982):

    B <- mu B + (1 - mu) G        U = mu B + (1 - mu) G  with Nesterov, else B
    W <- (1 - eta lambda) W - eta s(r, c) NewtonSchulz(U)

A parameter is divided into such matrices by its ``Division`` (divide.py). Sharded parameters (DTensors of FSDP2, HSDP
or expert parallelism) are exchanged as sharding/exchange_plan.py says; the result is that of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw
from torch.optim.optimizer import Optimizer

from .blocks import Blocks
from .divide import Division
from .newton_schulz import iteration_type, orthogonalize
from .normalize import normalize, second_moment
from .options import SCALES, check_details, check_options
from .sharding.exchange import Exchange
from .sharding.exchange_plan import BUCKET, make_buckets
from .sharding.pending import PendingUpdates
from .sharding.routes import Route, make_route
from .sharding.shards import layouts, local, part, zeros_like


class Muon(Optimizer):
    """Optimizer of a divided model: Muon for its matrices, AdamW for the rest.

    Group 0 has the matrices, group 1 the other parameters; an empty group is left out. A parameter without a gradient
    is not changed; it must be without one on all ranks. The state has the same sharding as the parameters.

    Args:
        divisions: result of ``divide(model)``, after the model has been sharded.
        lr: learning rate of the matrices.
        weight_decay: decoupled weight decay of both groups.
        momentum: mu above.
        nesterov: whether the momentum looks ahead.
        scale: factor of the learning rate by shape, one of ``SCALES``.
        coefficients: name of the Newton-Schulz coefficients.
        steps: number of Newton-Schulz steps; those of the coefficients by default.
        method: ``direct`` or ``gram`` (newton_schulz.py).
        symmetric: whether products with the own transpose take three quarters of the work.
        dtype: type of the iteration, by default that of ``iteration_type``. Matrices travel between ranks in bfloat16
            if it has 16 bits.
        cautious: whether weight decay acts only where it does not oppose the update (arXiv:2510.12402).
        neuron_beta: decay of NorMuon's second moment for each row (arXiv:2510.05491); None for plain Muon.
        adamw_lr: learning rate of the other parameters; ``lr`` by default.
        betas: decays of AdamW.
        eps: added to AdamW's denominator.
        capturable: whether AdamW's step count is on the device, for CUDA graphs.
        bucket: largest number of elements that a rank orthogonalizes at once.

    Raises ValueError for options out of range.
    """

    def __init__(
        self,
        divisions: Sequence[Division],
        lr: float | Tensor = 1e-3,
        *,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        scale: str = "moonlight",
        coefficients: str = "polar_express",
        steps: int | None = None,
        method: str = "direct",
        symmetric: bool = False,
        dtype: torch.dtype | None = None,
        cautious: bool = False,
        neuron_beta: float | None = None,
        adamw_lr: float | Tensor | None = None,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        capturable: bool = False,
        bucket: int = BUCKET,
    ) -> None:
        check_options(lr, lr if adamw_lr is None else adamw_lr, weight_decay, momentum, scale, neuron_beta)
        check_details(coefficients, steps, betas, eps, bucket)
        device = next((division.parameter.device for division in divisions), torch.device("cpu"))
        dtype = iteration_type(method, device, dtype)
        self._blocks: dict[Tensor, Blocks] = {
            division.parameter: division.blocks for division in divisions if division.blocks is not None
        }
        self._iteration: dict[str, Any] = {
            "name": coefficients,
            "steps": steps,
            "method": method,
            "symmetric": symmetric,
            "dtype": dtype,
        }
        self._wire = torch.bfloat16 if dtype.itemsize == 2 else dtype
        self._bucket = bucket
        self._plan: tuple[list[Tensor], list[Route]] | None = None
        matrices = {
            "params": [division.parameter for division in divisions if division.blocks is not None],
            "algorithm": "muon",
            "lr": lr,
            "momentum": momentum,
            "nesterov": nesterov,
            "scale": scale,
            "cautious": cautious,
            "neuron_beta": neuron_beta,
        }
        others = {
            "params": [division.parameter for division in divisions if division.blocks is None],
            "algorithm": "adamw",
            "lr": lr if adamw_lr is None else adamw_lr,
            "betas": betas,
            "eps": eps,
            "capturable": capturable,
        }
        super().__init__([group for group in (matrices, others) if group["params"]], {"weight_decay": weight_decay})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, whose missing options are those of the first group of its algorithm.

        Raise ValueError without an algorithm, and for matrices whose blocks are not known.
        """
        algorithm = param_group.get("algorithm")
        if algorithm not in {"muon", "adamw"}:
            raise ValueError(f"a group needs an algorithm, muon or adamw, got {algorithm!r}")
        weights = param_group["params"]
        weights = [weights] if isinstance(weights, Tensor) else list(weights)
        if algorithm == "muon" and not all(weight in self._blocks for weight in weights):
            raise ValueError("parameters of a Muon group need blocks; divide the model first and pass all divisions")
        like: dict[str, Any] = next((group for group in self.param_groups if group["algorithm"] == algorithm), {})
        super().add_param_group({**like, **param_group, "params": weights})
        self._plan = None

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state. Second moments stay float32, whatever the type of their parameters."""
        super().load_state_dict(state_dict)
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            for parameter, key in zip(group["params"], saved["params"], strict=True):
                moment = state_dict["state"].get(key, {}).get("second_moment")
                if moment is not None:
                    self.state[parameter]["second_moment"] = moment.to(parameter.device).clone()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs; it makes a plan of its own."""
        return {**self.__dict__, "_plan": None}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters. Every rank that holds a part of one of them must call this."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if group["algorithm"] == "adamw":
                self._adamw(group)
        self._muon()
        return loss

    def _adamw(self, group: dict[str, Any]) -> None:
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        columns: list[list[Tensor]] = [[], [], [], [], []]
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                device = parameter.device if group["capturable"] else torch.device("cpu")
                state["step"] = torch.zeros((), dtype=torch.float32, device=device)
                state["exp_avg"], state["exp_avg_sq"] = zeros_like(parameter), zeros_like(parameter)
            tensors = parameter, _gradient(parameter), state["exp_avg"], state["exp_avg_sq"]
            for column, tensor in zip(columns, (*map(local, tensors), state["step"]), strict=True):
                column.append(tensor)
        weights, gradients, averages, squares, steps = columns
        adamw(
            weights,
            gradients,
            averages,
            squares,
            [],
            steps,
            capturable=group["capturable"],
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )

    def _muon(self) -> None:
        groups = [group for group in self.param_groups if group["algorithm"] == "muon"]
        if not groups:
            return
        parameters, routes = self._planned(groups)
        group_of = {id(parameter): group for group in groups for parameter in group["params"]}
        compute = [(parameter, group_of[id(parameter)]) for parameter in parameters]
        gradients = [None if parameter.grad is None else _gradient(parameter) for parameter in parameters]
        for parameter, group in compute:
            if parameter.grad is not None:
                self._start_state(parameter, group)
        updates = PendingUpdates(
            lambda place: self._momentum(*compute[place], gradients[place]), len(parameters), routes
        )
        device = local(parameters[0]).device
        waiting: list[Exchange] = []
        exchanges = [Exchange(route, self._wire, device) for route in routes]
        exchanges[0].send(updates)
        for exchange, following in zip(exchanges, [*exchanges[1:], None], strict=True):
            if following is not None:
                following.send(updates)
            matrices = exchange.receive(updates)
            updates.release(exchange.route)
            factors = orthogonalize(matrices, **self._iteration) if len(matrices) else matrices
            exchange.give_back(factors.to(self._wire))  # also what stays here: replicas must have the same values
            waiting.append(exchange)
            if len(waiting) > 1:
                waiting[-2].spread()
            if len(waiting) > 2:
                self._apply(waiting.pop(0), parameters, group_of)
        updates.finish()
        waiting[-1].spread()
        for exchange in waiting:
            self._apply(exchange, parameters, group_of)

    def _planned(self, groups: Sequence[dict[str, Any]]) -> tuple[list[Tensor], list[Route]]:
        if self._plan is None:
            parameters = [parameter for group in groups for parameter in group["params"]]
            numbers = [number for number, group in enumerate(groups) for _ in group["params"]]
            spread = layouts(parameters)
            blocks = [self._blocks[parameter] for parameter in parameters]
            shapes = [tuple(parameter.shape) for parameter in parameters]
            buckets = make_buckets(shapes, blocks, spread, numbers, self._bucket)
            self._plan = parameters, [make_route(bucket, spread) for bucket in buckets]
        return self._plan

    def _start_state(self, parameter: Tensor, group: dict[str, Any]) -> None:
        """Make the state of a parameter, also on ranks that hold none of its rows: it is alike on all ranks."""
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = zeros_like(parameter)
        if group["neuron_beta"] is not None and "second_moment" not in state:
            state["second_moment"] = second_moment(parameter, self._blocks[parameter])

    def _momentum(self, parameter: Tensor, group: dict[str, Any], whole_gradient: Tensor | None) -> Tensor:
        """Return U of the own part of a parameter, and update its momentum."""
        if whole_gradient is None:
            return torch.zeros_like(local(parameter))
        gradient, buffer = local(whole_gradient), local(self.state[parameter]["momentum_buffer"])
        buffer.lerp_(gradient.to(buffer.dtype), 1 - group["momentum"])
        return gradient.to(buffer.dtype).lerp(buffer, group["momentum"]) if group["nesterov"] else buffer

    def _apply(self, exchange: Exchange, parameters: Sequence[Tensor], group_of: dict[int, dict[str, Any]]) -> None:
        bucket = exchange.route.bucket
        results = [result for result in exchange.finish() if parameters[result.part.unit.index].grad is not None]
        group = group_of[id(parameters[bucket.units[0].index])]
        if group["neuron_beta"] is not None:
            states = [self.state[parameters[result.part.unit.index]] for result in results]
            moments = [local(state["second_moment"]) for state in states]
            results = normalize(results, moments, exchange.route, group["neuron_beta"], local(parameters[0]).device)
        factor = SCALES[group["scale"]](*bucket.shape)
        for result in results:
            weights = part(local(parameters[result.part.unit.index]), result.part.box, result.part.origin)
            _decay(weights, result.update, group)
            _descend(weights, result.update, group["lr"], factor)


def _gradient(parameter: Any) -> Tensor:
    """Return the gradient, sharded like its parameter."""
    gradient = parameter.grad
    placements = getattr(parameter, "placements", None)
    if placements is not None and gradient.placements != placements:
        gradient = gradient.redistribute(parameter.device_mesh, placements)
    return gradient


def _decay(weights: Tensor, update: Tensor, group: dict[str, Any]) -> None:
    decay = group["lr"] * group["weight_decay"]
    if not group["cautious"]:
        weights.mul_(1 - decay)
    else:
        weights.sub_(weights * (weights * update >= 0) * decay)


def _descend(weights: Tensor, update: Tensor, lr: float | Tensor, factor: float) -> None:
    if isinstance(lr, Tensor):  # stays on the device, so that a graph reads its new value
        weights.sub_(update.to(weights.dtype) * (lr * factor))
    else:
        weights.add_(update, alpha=-lr * factor)
