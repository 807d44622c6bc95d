"""Workers of a run: checks that their parameters can be exchanged element by element, and equal ones at the start."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed


def local_tensor(parameter: Any) -> Tensor:
    """Return this rank's part of a parameter: the tensor itself, or the local shard of a DTensor, without gradient."""
    with torch.no_grad():
        data: Tensor = parameter.detach()
        return data.to_local() if hasattr(data, "to_local") else data


def check_shards(name: str, parameter: Any, group: Any) -> None:
    """Raise ValueError when a parameter is sharded over ranks of the group, whose parts are then no copies."""
    mesh = getattr(parameter, "device_mesh", None)
    if mesh is None:
        return
    ranks = set(distributed.get_process_group_ranks(group or distributed.group.WORLD))
    if len(ranks & set(mesh.mesh.flatten().tolist())) > 1:
        raise ValueError(
            f"{name} is sharded over ranks of the group; give each worker a mesh of its own and pass the group of the "
            "ranks with the same shard"
        )


def check_equal(sizes: Sequence[tuple[str, tuple[int, ...]]], group: Any) -> None:
    """Raise ValueError when the ranks of the group have parameters of different names or shapes."""
    everyone: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(everyone, list(sizes), group=group)
    for rank, other in enumerate(everyone):
        if other != everyone[0]:
            pairs = itertools.zip_longest(everyone[0], other, fillvalue=("none", ()))
            name = next(max(first[0], second[0]) for first, second in pairs if first != second)
            raise ValueError(f"worker {rank} has other parameters than worker 0, first {name}; build one model")


def broadcast(tensors: Sequence[Tensor], group: Any) -> None:
    """Give every worker the tensors of the group's first one."""
    first = distributed.get_process_group_ranks(group or distributed.group.WORLD)[0]
    for tensor in tensors:
        buffer = tensor.contiguous()
        distributed.broadcast(buffer, src=first, group=group)
        tensor.copy_(buffer)
