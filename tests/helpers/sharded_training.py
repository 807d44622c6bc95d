"""Training of the small transformer on several ranks: FSDP2, HSDP, expert parallel and context parallel meshes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from helpers.small_transformer import SmallTransformer, next_token_loss, token_batches
from torch import Tensor, distributed, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.utils.flop_counter import FlopCounterMode

from etude.trainers.muon import Muon, divide

LR = 0.02
MESHES: dict[str, int] = {
    "one": 1,
    "fsdp2": 2,
    "fsdp4": 4,
    "fsdp8": 8,
    "hsdp2x2": 4,
    "hsdp2x4": 8,
    "hsdp4x2": 8,
    "dual": 8,
    "ep4xfsdp2": 8,
    "cp2xep8": 8,
}
"""Ranks of each mesh. ``dual``: HSDP 2 x 4 for dense parameters, experts over all 8. ``ep4xfsdp2``: experts over 4
ranks, and each rank's experts sharded over 2. ``cp2xep8``: FSDP over 8, sequences over 2, experts over 8."""


class _Gather(torch.autograd.Function):
    """Tensors of all ranks of a group, beside each other; gradients are summed."""

    @staticmethod
    def forward(context: Any, tensor: Tensor, group: Any, dim: int) -> Tensor:
        context.group, context.dim, context.size = group, dim, tensor.size(dim)
        parts = [torch.empty_like(tensor) for _ in range(distributed.get_world_size(group))]
        distributed.all_gather(parts, tensor.contiguous(), group=group)
        return torch.cat(parts, dim)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        gradient = gradients[0].contiguous()
        distributed.all_reduce(gradient, group=context.group)
        first = distributed.get_rank(context.group) * context.size
        return gradient.narrow(context.dim, first, context.size), None, None


class _Scatter(torch.autograd.Function):
    """Own part of the sum over all ranks of a group; gradients are gathered."""

    @staticmethod
    def forward(context: Any, tensor: Tensor, group: Any) -> Tensor:
        context.group = group
        total = tensor.contiguous().clone()
        distributed.all_reduce(total, group=group)
        return total.chunk(distributed.get_world_size(group))[distributed.get_rank(group)]

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        parts = [torch.empty_like(gradients[0]) for _ in range(distributed.get_world_size(context.group))]
        distributed.all_gather(parts, gradients[0].contiguous(), group=context.group)
        return torch.cat(parts), None


class World:
    """A model and its optimizer on one mesh of ``MESHES``.

    Args:
        name: mesh.
        options: arguments of Muon; ``dtype`` float64 makes the model one of float64 too.
    """

    def __init__(self, name: str, options: dict[str, Any] | None = None) -> None:
        self.name, self.size = name, MESHES[name]
        self.rank = distributed.get_rank() if self.size > 1 else 0
        options = {"dtype": torch.float32, **(options or {})}
        self.model = SmallTransformer()
        if options["dtype"] == torch.float64:
            self.model.double()
        self.context = 2 if name == "cp2xep8" else 1
        if self.size > 1:
            self._shard()
        self.optimizer = Muon(divide(self.model), LR, **options)

    def _shard(self) -> None:
        flat = init_device_mesh("cpu", (self.size,), mesh_dim_names=("all",))
        dense = flat
        if self.name.startswith("hsdp") or self.name == "dual":
            replicas = 4 if self.name == "hsdp4x2" else 2
            dense = init_device_mesh("cpu", (replicas, self.size // replicas), mesh_dim_names=("replicate", "shard"))
        ignored: set[nn.Parameter] = set()
        if self.name in {"dual", "cp2xep8"}:
            ignored = self._spread_experts(flat, None)
        elif self.name == "ep4xfsdp2":
            experts = init_device_mesh("cpu", (2, 4), mesh_dim_names=("fsdp", "ep"))
            ignored = self._spread_experts(experts["ep"], experts["fsdp"])
        if self.context > 1:
            self._spread_sequences()
        for layer in self.model.layers:
            fully_shard(layer, mesh=dense, ignored_params=ignored)
        fully_shard(self.model, mesh=dense, ignored_params=ignored)

    def _spread_experts(self, mesh: DeviceMesh, inner: DeviceMesh | None) -> set[nn.Parameter]:
        """Give each rank of ``mesh`` some experts. With ``inner``, FSDP shards these further."""
        group, whole = mesh.get_group(), self.size
        for layer in self.model.layers:
            experts = layer.experts
            for name, parameter in list(experts.named_parameters()):
                spread = distribute_tensor(parameter.detach(), mesh, [Shard(0)])
                setattr(experts, name, nn.Parameter(spread))
            experts.exchange = lambda compute, hidden: _Scatter.apply(compute(_Gather.apply(hidden, group, 0)), group)
            if inner is not None:
                fully_shard(experts, mesh=inner)  # which averages gradients over its two ranks
        for parameter in self._expert_parameters():
            parameter.register_post_accumulate_grad_hook(_divided_by(whole if inner is None else mesh.size()))
        return set(self._expert_parameters())

    def _expert_parameters(self) -> list[nn.Parameter]:
        return [parameter for layer in self.model.layers for parameter in layer.experts.parameters()]

    def _spread_sequences(self) -> None:
        pairs = init_device_mesh("cpu", (self.size // 2, 2), mesh_dim_names=("dp", "cp"))
        group, place = pairs["cp"].get_group(), pairs.get_local_rank("cp")
        for layer in self.model.layers:
            layer.attention.gather = lambda tensor: (_Gather.apply(tensor, group, 1), place * tensor.size(1))

    def step(self, batch: Tensor) -> float:
        """Train on the own part of a batch, and return the own loss."""
        rows = batch.chunk(self.size // self.context)[self.rank // self.context]
        if self.context > 1:  # half of the sequence, with the token that follows it
            half = (rows.size(1) - 1) // 2
            first = self.rank % 2 * half
            rows = rows[:, first : first + half + 1]
        self.optimizer.zero_grad()
        loss = next_token_loss(self.model, rows)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def parameters(self) -> dict[str, Tensor]:
        """Return all parameters whole."""
        return {name: _whole(parameter.detach()) for name, parameter in self.model.named_parameters()}

    def state(self) -> dict[str, Tensor]:
        """Return all tensors of the optimizer's state whole."""
        found = {
            f"{name}.{key}": value
            for name, parameter in self.model.named_parameters()
            for key, value in sorted(self.optimizer.state[parameter].items())  # ranks gather in the same order
        }
        return {name: _whole(value) for name, value in found.items()}


def _divided_by(number: int) -> Callable[[Tensor], None]:
    def divide_gradient(parameter: Tensor) -> None:
        parameter.grad.div_(number)

    return divide_gradient


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor().clone() if isinstance(tensor, DTensor) else tensor.clone()


def train(name: str, options: dict[str, Any], steps: int = 4) -> dict[str, Tensor]:
    """Return the parameters after some steps on a mesh."""
    world = World(name, options)
    for batch in token_batches(steps):
        world.step(batch)
    return world.parameters()


def count(name: str) -> tuple[int, int]:
    """Return the bytes that this rank sends in one optimizer step, and its floating point operations in products."""
    world = World(name)
    world.step(token_batches(1)[0])
    sent = 0

    def counted(call: Any) -> Any:
        def instead(received: Tensor, given: Tensor, *arguments: Any, group: Any, **keywords: Any) -> Any:
            nonlocal sent
            me = distributed.get_rank(group)
            if arguments:
                sent += sum(size for rank, size in enumerate(arguments[1]) if rank != me)
            else:
                sent += given.numel() * (distributed.get_world_size(group) - 1)
            return call(received, given, *arguments, group=group, **keywords)

        return instead

    for call in ("all_to_all_single", "all_gather_single"):
        setattr(distributed, call, counted(getattr(distributed, call)))
    with FlopCounterMode(display=False) as counter:
        world.optimizer.step()
    return sent, counter.get_total_flops()


def save(name: str, options: dict[str, Any], folder: Path, steps: int = 3) -> tuple[dict[str, Tensor], ...]:
    """Train on a mesh, save a checkpoint and return parameters and state."""
    world = World(name, options)
    for batch in token_batches(steps):
        world.step(batch)
    model, optimizer = get_state_dict(world.model, world.optimizer)
    dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=folder, no_dist=world.size == 1)
    return world.parameters(), world.state()


def load(name: str, options: dict[str, Any], folder: Path, batches: Sequence[Tensor] = ()) -> tuple[Any, ...]:
    """Load a checkpoint on a mesh and return parameters and state, and the parameters after more steps."""
    world = World(name, options)
    model, optimizer = get_state_dict(world.model, world.optimizer)
    state = {"model": model, "optimizer": optimizer}
    dcp.load(state, checkpoint_id=folder, no_dist=world.size == 1)
    set_state_dict(world.model, world.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    loaded = world.parameters(), world.state()
    for batch in batches:
        world.step(batch)
    return *loaded, world.parameters()
