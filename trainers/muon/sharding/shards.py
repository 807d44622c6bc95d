"""Layouts: which part of a parameter each rank holds.

The mesh dimensions of a DTensor are of two kinds. Along those that shard, ranks hold different parts; along those that
replicate, the same parts. Both lists are flattened, so a rank has one place among S shards and one among R replicas.
Plain tensors are on one shard of one replica.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed

Box = tuple[tuple[int, int], ...]
"""Part of a tensor: first index and the one after the last, for each dimension."""


@dataclass(frozen=True)
class Ranks:
    """Ranks over which parameters are spread alike, and the own place among them."""

    table: tuple[tuple[int, ...], ...] = ((0,),)
    """Number of the rank of each shard [S], for each replica [R]."""
    replica: int = 0
    shard: int = 0
    shard_group: Any = None
    """Process group of the own replica's shards; None for one shard."""
    replica_group: Any = None
    """Process group of the replicas of the own shard; None for one replica."""


@dataclass(frozen=True)
class Layout:
    """Parts of one parameter on the shards."""

    ranks: Ranks
    boxes: tuple[Box, ...]
    """Part on each shard [S]."""


def whole(shape: Sequence[int]) -> Box:
    """Return the box of a whole tensor."""
    return tuple((0, length) for length in shape)


def volume(box: Box) -> int:
    """Return the number of elements in a box."""
    return math.prod(stop - start for start, stop in box)


def overlap(first: Box, second: Box) -> Box | None:
    """Return what two boxes have in common, None for nothing."""
    box = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(first, second, strict=True))
    return box if all(start < stop for start, stop in box) else None


def part(tensor: Tensor, box: Box, origin: Box) -> Tensor:
    """Return the view of ``box`` in a tensor that holds the box ``origin``."""
    return tensor[
        tuple(slice(start - first, stop - first) for (start, stop), (first, _) in zip(box, origin, strict=True))
    ]


def local(tensor: Any) -> Tensor:
    """Return the part of a tensor that this rank holds."""
    return tensor.to_local() if isinstance(tensor, _dtensor()) else tensor


def layouts(parameters: Sequence[Tensor]) -> list[Layout]:
    """Return the layout of each parameter. Every rank that holds a part of one of them must call this.

    Raise ValueError for a DTensor whose parts are not boxes, and for one that is a partial sum.
    """
    spreads = [_spread(parameter) for parameter in parameters]
    sharded: dict[int, Layout] = {}
    for key in dict.fromkeys(spread for spread in spreads if spread is not None):
        indices = [index for index, spread in enumerate(spreads) if spread == key]
        sharded |= dict(zip(indices, _sharded([parameters[index] for index in indices]), strict=True))
    return [
        sharded.get(index) or Layout(Ranks(), (whole(parameter.shape),)) for index, parameter in enumerate(parameters)
    ]


def _dtensor() -> Any:
    """Return the class of sharded tensors, which exists only where torch has distributed support."""
    if not distributed.is_available():
        return type(None)
    from torch.distributed.tensor import DTensor

    return DTensor


def _spread(parameter: Any) -> tuple[Any, ...] | None:
    """Return what distinguishes how DTensors are spread; None for a plain tensor."""
    if not isinstance(parameter, _dtensor()):
        return None
    mesh = parameter.device_mesh
    return tuple(mesh.mesh.shape), tuple(mesh.mesh.flatten().tolist()), tuple(map(repr, parameter.placements))


def own_box(tensor: Any) -> Box:
    """Return the part of a tensor that this rank holds; for a DTensor whose parts are boxes."""
    if not isinstance(tensor, _dtensor()):
        return whole(tensor.shape)
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    sizes, offsets = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple((start, start + size) for start, size in zip(offsets, sizes, strict=True))


def _sharded(parameters: Sequence[Any]) -> list[Layout]:
    """Return the layouts of DTensors that are spread alike."""
    ranks = _ranks(parameters[0])
    held = [own_box(parameter) for parameter in parameters]
    every: list[Any] = [held]
    if ranks.shard_group is not None:
        every = [None] * len(ranks.table[0])
        distributed.all_gather_object(every, held, group=ranks.shard_group)
    result = []
    for index, parameter in enumerate(parameters):
        boxes = tuple(boxes[index] for boxes in every)
        _check_partition(parameter, boxes)
        result.append(Layout(ranks, boxes))
    return result


def _check_partition(parameter: Any, boxes: Sequence[Box]) -> None:
    filled = [box for box in boxes if volume(box)]
    if sum(map(volume, filled)) != parameter.numel() or any(
        overlap(*pair) is not None for pair in itertools.combinations(filled, 2)
    ):
        raise ValueError(
            f"the parts of a parameter {tuple(parameter.shape)} with {parameter.placements} are not boxes; shard each "
            "dimension along one mesh dimension"
        )


def _ranks(parameter: Any) -> Ranks:
    mesh, placements = parameter.device_mesh, parameter.placements
    if any(placement.is_partial() for placement in placements):
        raise ValueError(f"a parameter with {placements} is a partial sum; redistribute it first")
    shards = [dim for dim, placement in enumerate(placements) if not placement.is_replicate()]
    replicas = [dim for dim in range(mesh.ndim) if dim not in shards]
    numbers = mesh.mesh.permute(*replicas, *shards)
    count = math.prod(mesh.shape[dim] for dim in shards)
    table = tuple(map(tuple, numbers.reshape(-1, count).tolist()))
    me = distributed.get_rank()
    replica = next(index for index, row in enumerate(table) if me in row)
    shard = table[replica].index(me)
    return Ranks(
        table,
        replica,
        shard,
        _group(mesh, shards, table[replica]),
        _group(mesh, replicas, tuple(row[shard] for row in table)),
    )


def _group(mesh: Any, dims: Sequence[int], members: tuple[int, ...]) -> Any:
    """Return the process group of mesh dimensions; that of the mesh where there is one."""
    if len(members) == 1:
        return None
    if len(dims) == 1:
        return mesh.get_group(dims[0])
    return distributed.new_group(list(members), use_local_synchronization=True)


def zeros_like(tensor: Tensor) -> Tensor:
    """Return zeros like a parameter, sharded like it."""
    return torch.zeros_like(tensor, memory_format=torch.preserve_format)
